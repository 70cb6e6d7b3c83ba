-- Adds an event and returns its id. KEYS: events. ARGV: most events, seconds, stream, gateway, message.
local id = redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1], '*', 's', ARGV[3], 'g', ARGV[4], 'm', ARGV[5])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return id
