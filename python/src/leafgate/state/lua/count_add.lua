-- Adds what is new in the totals of one process to the sums.
local sums, since, run = KEYS[1], KEYS[2], KEYS[3]
redis.call('SET', since, ARGV[1], 'NX')
for place = 4, #ARGV, 2 do
  local name, times = ARGV[place], tonumber(ARGV[place + 1])
  local new = times - tonumber(redis.call('HGET', run, name) or 0)
  local has_room = redis.call('HEXISTS', sums, name) == 1 or redis.call('HLEN', sums) < tonumber(ARGV[2])
  if new > 0 and has_room then
    redis.call('HINCRBYFLOAT', sums, name, string.format('%.17g', new))
    redis.call('HSET', run, name, ARGV[place + 1])
  end
end
redis.call('EXPIRE', run, ARGV[3])
return true
