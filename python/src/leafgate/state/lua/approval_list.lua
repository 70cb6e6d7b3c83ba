-- Returns the ids and contents of the pending approvals, those that end first before the others.
local P, pending = KEYS[1], {}
for _, id in ipairs(redis.call('ZRANGE', P .. ':all', 0, -1)) do
  local found = redis.call('HMGET', P .. ':i:' .. id, 'status', 'content')
  if found[1] == 'pending' then table.insert(pending, {id, found[2]}) end
end
return pending
