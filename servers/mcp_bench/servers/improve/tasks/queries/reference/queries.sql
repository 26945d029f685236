-- setup
CREATE INDEX by_dest ON flights(dest, dep_delay, carrier);
CREATE INDEX by_day ON flights(month, day, origin, flight, tailnum);
CREATE INDEX by_carrier ON flights(carrier, month, arr_delay, origin, day, hour);
CREATE INDEX by_month ON flights(month, dest, arr_delay, tailnum);
CREATE INDEX by_plane ON flights(month, tailnum);
CREATE INDEX by_hour ON weather(origin, month, day, hour, wind);
CREATE INDEX by_tail ON planes(tailnum, manufacturer);
ANALYZE;

-- query late
SELECT carrier, count(*) AS n FROM flights WHERE dest = :dest AND dep_delay > :delay GROUP BY carrier ORDER BY carrier

-- query day
SELECT flight, tailnum FROM flights WHERE month = :month AND day = :day AND origin = :origin ORDER BY flight, tailnum

-- query windy
SELECT count(*), max(w.wind) FROM flights f JOIN weather w
ON w.origin = f.origin AND w.month = f.month AND w.day = f.day AND w.hour = f.hour
WHERE f.carrier = :carrier AND f.month = :month AND f.arr_delay > :delay

-- query makers
SELECT p.manufacturer, count(*) FROM
(SELECT tailnum FROM flights WHERE month = :month GROUP BY tailnum HAVING count(*) > 1) busy
JOIN planes p ON p.tailnum = busy.tailnum
GROUP BY p.manufacturer ORDER BY p.manufacturer

-- query worst
SELECT f.tailnum, f.dest, f.arr_delay FROM
(SELECT dest, max(arr_delay) AS most FROM flights WHERE month = :month GROUP BY dest) worst
JOIN flights f ON f.month = :month AND f.dest = worst.dest AND f.arr_delay = worst.most
ORDER BY f.dest, f.tailnum
