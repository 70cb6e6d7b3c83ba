-- Adds an event and returns its id. KEYS: events, their bytes. ARGV: most events, seconds, most bytes, stream, gateway,
-- message. The oldest events go while there are too many, or too many bytes.
local id = redis.call('XADD', KEYS[1], '*', 's', ARGV[4], 'g', ARGV[5], 'm', ARGV[6])
local bytes = redis.call('INCRBY', KEYS[2], #ARGV[6])
while redis.call('XLEN', KEYS[1]) > tonumber(ARGV[1]) or bytes > tonumber(ARGV[3]) do
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  if not oldest or oldest[1] == id then break end
  redis.call('XDEL', KEYS[1], oldest[1])
  bytes = redis.call('DECRBY', KEYS[2], #oldest[2][6])
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
return id
