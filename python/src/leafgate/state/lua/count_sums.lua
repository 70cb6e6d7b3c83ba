-- All sums, and since when; renews the totals of this process. KEYS: sums, since, run. ARGV: seconds.
redis.call('EXPIRE', KEYS[3], ARGV[1])
return {redis.call('HGETALL', KEYS[1]), redis.call('GET', KEYS[2])}
