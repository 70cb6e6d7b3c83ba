-- Returns an artifact, or false.
local owner, handle = ARGV[2], ARGV[3]
local found = redis.call('HMGET', P .. ':e:' .. owner .. ':' .. handle, 'about', 'digest')
if not found[1] then return false end
local ends = redis.call('ZSCORE', P .. ':age', owner .. ':' .. handle)
local content = redis.call('GET', P .. ':c:' .. found[2])
if not content or not ends or tonumber(ends) <= now then
  drop(owner, handle)
  return false
end
touch(owner, handle)
return {found[1], content}
