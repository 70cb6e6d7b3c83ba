-- Returns the status and the content of an approval, or false. ARGV: id, and `find`, `take` (it is removed), or the status
-- that a pending one gets. An approval ends by itself, so that one that is there is in time.
local P, id, step = KEYS[1], ARGV[1], ARGV[2]
local found = redis.call('HMGET', P .. ':i:' .. id, 'status', 'content', 'caller')
if not found[1] then return false end
if step == 'take' then
  redis.call('DEL', P .. ':i:' .. id)
  redis.call('ZREM', P .. ':all', id)
  redis.call('ZREM', P .. ':of:' .. found[3], id)
elseif step ~= 'find' then
  if found[1] ~= 'pending' then return false end
  redis.call('HSET', P .. ':i:' .. id, 'status', step)
end
return {found[1], found[2]}
