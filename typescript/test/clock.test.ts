import { describe, expect, it } from "vitest";
import { convertTime, currentTime, ZoneError } from "../examples/time-server/clock.js";

const at = (iso: string) => new Date(iso);

describe("the clock", () => {
  it("tells the time of a zone", () => {
    expect(currentTime(at("2026-11-16T14:30:59Z"), "UTC")).toBe("It is currently 14:30 UTC.");
    expect(currentTime(at("2026-11-16T00:05:00Z"), "America/New_York")).toBe("It is currently 19:05 America/New_York.");
    expect(currentTime(at("2026-11-16T18:30:00Z"), "Asia/Kolkata")).toBe("It is currently 00:00 Asia/Kolkata.");
  });

  it.each([
    ["2026-01-10T12:00:00Z", "Europe/Berlin", "16:30", "Asia/Tokyo", "00:30 Asia/Tokyo (Sunday), 08:00 hours ahead."],
    ["2026-07-10T12:00:00Z", "Europe/Berlin", "16:30", "Asia/Tokyo", "23:30 Asia/Tokyo (Friday), 07:00 hours ahead."],
    [
      "2026-07-10T12:00:00Z",
      "Asia/Kathmandu",
      "0:10",
      "America/New_York",
      "14:25 America/New_York (Thursday), 09:45 hours behind.",
    ],
    ["2026-07-10T12:00:00Z", "UTC", "23:59", "Africa/Abidjan", "23:59 Africa/Abidjan (Friday), no time difference."],
    // Berlin went back at 03:00 on 25 October 2026: before and after the change.
    ["2026-10-25T12:00:00Z", "Europe/Berlin", "01:30", "UTC", "23:30 UTC (Saturday), 02:00 hours behind."],
    ["2026-10-25T12:00:00Z", "Europe/Berlin", "03:30", "UTC", "02:30 UTC (Sunday), 01:00 hours behind."],
    ["2026-10-25T12:00:00Z", "Europe/Berlin", "02:30", "UTC", "00:30 UTC (Sunday), 02:00 hours behind."],
    // New York went forward at 02:00 on 8 March 2026.
    ["2026-03-08T12:00:00Z", "America/New_York", "01:59", "UTC", "06:59 UTC (Sunday), 05:00 hours ahead."],
    ["2026-03-08T12:00:00Z", "America/New_York", "03:00", "UTC", "07:00 UTC (Sunday), 04:00 hours ahead."],
    // The day is the source zone's own: it is already Tuesday in Auckland.
    ["2026-11-16T12:00:00Z", "Pacific/Auckland", "08:00", "UTC", "19:00 UTC (Monday), 13:00 hours behind."],
  ])("on %s, %s %s in %s", (now, source, time, target, expected) => {
    expect(convertTime(at(now), source, time, target)).toMatch(
      new RegExp(` is ${expected.replace(/[().]/g, "\\$&")}$`),
    );
  });

  it("knows that an hour is skipped", () => {
    expect(() => convertTime(at("2026-03-08T12:00:00Z"), "America/New_York", "02:30", "UTC")).toThrow(/no 02:30/);
  });

  it.each([
    ["Mars/Olympus", "10:00", "UTC"],
    ["UTC", "10:00", ""],
    ["UTC", "24:00", "UTC"],
    ["UTC", "10:60", "UTC"],
    ["UTC", "10", "UTC"],
    ["UTC", "10:00:00", "UTC"],
    ["UTC", " 10:00", "UTC"],
  ])("refuses %j %j %j", (source, time, target) => {
    expect(() => convertTime(at("2026-01-01T00:00:00Z"), source, time, target)).toThrow(ZoneError);
  });
});
