-- Checks all limits of a call, and counts it if none is broken. The arguments end with two limits for each key.
local counted, call, window, session = ARGV[1] == '1', ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local now = tonumber(ARGV[5])
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

for place, key in ipairs(KEYS) do
  local per_minute, per_session = tonumber(ARGV[4 + 2 * place]), tonumber(ARGV[5 + 2 * place])
  if per_session >= 0 and tonumber(redis.call('GET', key .. ':sum') or 0) >= per_session then
    return {place, 'session', -1}
  end
  if per_minute >= 0 then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now - window)
    redis.call('ZREMRANGEBYSCORE', key, now + window, '+inf')
    local calls = redis.call('ZCARD', key)
    if calls >= per_minute then
      if per_minute == 0 then return {place, 'minute', -1} end
      local leaving = redis.call('ZRANGE', key, calls - per_minute, calls - per_minute, 'WITHSCORES')[2]
      return {place, 'minute', leaving + window - now}
    end
  end
end

if counted then
  for place, key in ipairs(KEYS) do
    if tonumber(ARGV[4 + 2 * place]) >= 0 then
      redis.call('ZADD', key, now, call)
      redis.call('PEXPIRE', key, 2 * window)
    end
    if tonumber(ARGV[5 + 2 * place]) >= 0 then
      redis.call('INCR', key .. ':sum')
      redis.call('EXPIRE', key .. ':sum', session)
    end
  end
end
return false
