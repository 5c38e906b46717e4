//! Matching days of a month as bit sets.

use jiff::civil::Date;

use super::CronExpression;

impl CronExpression {
    /// Returns the matching days of this month as bits 1 to 31.
    pub(super) fn days_of_month(&self, year: i16, month: i8) -> u32 {
        let Ok(first) = Date::new(year, month, 1) else { return 0 };
        let length = u32::from(first.days_in_month().unsigned_abs());
        let all = ((1u64 << (length + 1)) - 2) as u32;
        match (self.days_set, self.weekdays_set) {
            (false, false) => all,
            (true, false) => self.by_day(length) & all,
            (false, true) => self.by_weekday(first, length) & all,
            (true, true) => (self.by_day(length) | self.by_weekday(first, length)) & all,
        }
    }

    const fn by_day(&self, length: u32) -> u32 {
        self.days | if self.last_day { 1 << length } else { 0 }
    }

    fn by_weekday(&self, first: Date, length: u32) -> u32 {
        let offset = first.weekday().to_sunday_zero_offset().unsigned_abs();
        let last_seven = !0u32 << (length - 6);
        let mut days = spread(self.weekdays, offset) | (spread(self.last_weekdays, offset) & last_seven);
        for (week, weekdays) in self.nth_weekdays.iter().enumerate() {
            let seven = (0b1111_1110u64 << (7 * week)) as u32;
            days |= spread(*weekdays, offset) & seven;
        }
        days
    }
}

/// Expands weekday bits to day-of-month bits for a month whose first day is the weekday `offset`.
fn spread(weekdays: u8, offset: u8) -> u32 {
    let week = u64::from(weekdays);
    let from_first = ((week >> offset) | (week << (7 - offset))) & 0x7f;
    let month = from_first | from_first << 7 | from_first << 14 | from_first << 21 | from_first << 28;
    (month << 1) as u32
}
