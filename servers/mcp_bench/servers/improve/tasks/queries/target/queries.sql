-- setup

-- query late
SELECT carrier, count(*) AS n FROM flights WHERE dest = :dest AND dep_delay > :delay GROUP BY carrier ORDER BY carrier

-- query day
SELECT flight, tailnum FROM flights WHERE month = :month AND day = :day AND origin = :origin ORDER BY flight, tailnum

-- query windy
SELECT count(*), max(w.wind) FROM flights f JOIN weather w
ON w.origin = f.origin AND w.month = f.month AND w.day = f.day AND w.hour = f.hour
WHERE f.carrier = :carrier AND f.month = :month AND f.arr_delay > :delay

-- query makers
SELECT p.manufacturer, count(*) FROM planes p
WHERE (SELECT count(*) FROM flights f WHERE f.tailnum = p.tailnum AND f.month = :month) > 1
GROUP BY p.manufacturer ORDER BY p.manufacturer

-- query worst
SELECT f.tailnum, f.dest, f.arr_delay FROM flights f
WHERE f.month = :month AND f.arr_delay = (SELECT max(g.arr_delay) FROM flights g WHERE g.dest = f.dest AND g.month = f.month)
ORDER BY f.dest, f.tailnum
