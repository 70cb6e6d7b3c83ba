/**
 * Sentences about an instant or a time of day in IANA time zones. Throws ZoneError. The present instant is an argument.
 */
export class ZoneError extends Error {
  override name = "ZoneError";
}

interface Fields {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
}

const MINUTE = 60_000;
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/** "It is currently 14:30 UTC." */
export function currentTime(now: Date, zone: string): string {
  const { hour, minute } = fieldsIn(zone, now.getTime());
  return `It is currently ${clock(hour, minute)} ${zone}.`;
}

/** What a time of today in one zone is in another. */
export function convertTime(now: Date, sourceZone: string, time: string, targetZone: string): string {
  const { hour, minute } = parseTime(time);
  const today = fieldsIn(sourceZone, now.getTime());
  const instant = instantOf({ ...today, hour, minute }, sourceZone);
  const source = fieldsIn(sourceZone, instant);
  const target = fieldsIn(targetZone, instant);
  if (source.hour !== hour || source.minute !== minute)
    throw new ZoneError(`There is no ${clock(hour, minute)} in ${sourceZone} today: the clocks go forward over it.`);
  return (
    `${clock(hour, minute)} ${sourceZone} (${weekday(source)}) is ` +
    `${clock(target.hour, target.minute)} ${targetZone} (${weekday(target)}), ${difference(source, target)}.`
  );
}

function parseTime(time: string): { hour: number; minute: number } {
  const match = /^([01]?\d|2[0-3]):([0-5]\d)$/.exec(time);
  if (match === null) throw new ZoneError(`Invalid time ${JSON.stringify(time)}: expected HH:MM, such as 09:05.`);
  return { hour: Number(match[1]), minute: Number(match[2]) };
}

function fieldsIn(zone: string, instant: number): Fields {
  const parts = new Map(
    formatFor(zone)
      .formatToParts(instant)
      .map(({ type, value }) => [type, Number(value)]),
  );
  const get = (type: Intl.DateTimeFormatPartTypes) => parts.get(type)!;
  return { year: get("year"), month: get("month"), day: get("day"), hour: get("hour"), minute: get("minute") };
}

function formatFor(zone: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat("en-US", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
    });
  } catch {
    throw new ZoneError(`Unknown time zone ${JSON.stringify(zone)}: expected an IANA name, such as Europe/Berlin.`);
  }
}

/**
 * The instant at which a zone's clocks show these fields. Read as UTC they are off by the zone's offset, which is known
 * only at the instant itself: the offset at the first guess gives a second one, and that one's offset settles it.
 */
function instantOf(fields: Fields, zone: string): number {
  const asUtc = utc(fields);
  const offsetAt = (instant: number) => utc(fieldsIn(zone, instant)) - instant;
  const candidates = [asUtc - 24 * 60 * MINUTE, asUtc + 24 * 60 * MINUTE].map((near) => asUtc - offsetAt(near));
  // Of the two offsets around a change of clocks, the earlier one first: a repeated hour means its first pass.
  const right = candidates.find((instant) => utc(fieldsIn(zone, instant)) === asUtc);
  return right ?? candidates[0]!;
}

function utc({ year, month, day, hour, minute }: Fields): number {
  return Date.UTC(year, month - 1, day, hour, minute);
}

function clock(hour: number, minute: number): string {
  return `${String(hour).padStart(2, "0")}:${String(minute).padStart(2, "0")}`;
}

function weekday(fields: Fields): string {
  return DAYS[new Date(utc(fields)).getUTCDay()]!;
}

function difference(source: Fields, target: Fields): string {
  const minutes = (utc(target) - utc(source)) / MINUTE;
  const size = clock(Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60);
  return minutes === 0 ? "no time difference" : `${size} hours ${minutes > 0 ? "ahead" : "behind"}`;
}
