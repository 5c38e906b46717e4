//! Parser: five fields, or a common `@` name. Extensions of other programs and probable mistakes are rejected with the
//! field and the reason.

use super::{CronError, CronExpression, CronField, WEEKS_IN_MONTH};

/// Maximum length of an expression, in bytes.
pub const MAX_EXPRESSION_LENGTH: usize = 256;

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
/// Maximum length of each month.
const MONTH_LENGTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Parsed field.
#[derive(Debug, Default)]
struct Field {
    bits: u64,
    /// Whether the field is `*` without a step.
    any: bool,
    last: bool,
    last_weekdays: u8,
    nth_weekdays: [u8; WEEKS_IN_MONTH],
}

impl CronExpression {
    /// Parses an expression such as `0 9 * * MON-FRI` or `@daily`.
    ///
    /// # Errors
    /// The first invalid field, the reason, and the allowed values; also if the expression can never fire.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim_matches([' ', '\t']);
        check_text(text)?;
        let fields: Vec<&str> = match text.strip_prefix('@') {
            Some(name) => named(name)?.split(' ').collect(),
            None => text.split([' ', '\t']).filter(|field| !field.is_empty()).collect(),
        };
        let &[minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(wrong_count(&fields));
        };
        let minutes = parse_field(CronField::Minute, minute)?;
        let hours = parse_field(CronField::Hour, hour)?;
        let days = parse_field(CronField::DayOfMonth, day)?;
        let months = parse_field(CronField::Month, month)?;
        let weekdays = parse_field(CronField::Weekday, weekday)?;
        let expression = Self {
            text: text.split([' ', '\t']).filter(|field| !field.is_empty()).collect::<Vec<_>>().join(" "),
            minutes: minutes.bits,
            hours: hours.bits as u32,
            days: days.bits as u32,
            last_day: days.last,
            days_set: !days.any,
            months: months.bits as u16,
            // Sunday is 0 and 7.
            weekdays: ((weekdays.bits | weekdays.bits >> 7) & 0x7f) as u8,
            last_weekdays: weekdays.last_weekdays,
            nth_weekdays: weekdays.nth_weekdays,
            weekdays_set: !weekdays.any,
        };
        expression.check_satisfiable()?;
        Ok(expression)
    }

    /// Rejects days that no selected month has. Every weekday occurs in every month, and a fifth one in some year.
    fn check_satisfiable(&self) -> Result<(), CronError> {
        if !self.days_set || self.weekdays_set || self.last_day {
            return Ok(());
        }
        let longest = (1..=12usize)
            .filter(|month| self.months >> month & 1 == 1)
            .map(|month| MONTH_LENGTHS[month - 1])
            .max()
            .unwrap_or(31);
        let first = self.days.trailing_zeros();
        if first <= longest {
            return Ok(());
        }
        Err(CronError::of(
            CronField::DayOfMonth,
            format!("never fires: day {first} does not exist in the chosen months, which have at most {longest} days"),
        ))
    }
}

fn check_text(text: &str) -> Result<(), CronError> {
    if text.is_empty() {
        return Err(CronError::whole("is empty; use five fields such as `0 9 * * 1-5`, or a name such as `@daily`"));
    }
    if text.len() > MAX_EXPRESSION_LENGTH {
        return Err(CronError::whole(format!("is longer than {MAX_EXPRESSION_LENGTH} characters")));
    }
    if let Some(bad) = text.chars().find(|c| !c.is_ascii() || (c.is_ascii_control() && *c != '\t')) {
        return Err(CronError::whole(format!("contains {bad:?}, which is not permitted in a cron expression")));
    }
    let upper = text.to_ascii_uppercase();
    if upper.starts_with("TZ=") || upper.starts_with("CRON_TZ=") {
        return Err(CronError::whole("starts with a time zone; set the field `timezone` instead"));
    }
    Ok(())
}

fn named(name: &str) -> Result<&'static str, CronError> {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "yearly" | "annually" => Ok("0 0 1 1 *"),
        "monthly" => Ok("0 0 1 * *"),
        "weekly" => Ok("0 0 * * 0"),
        "daily" | "midnight" => Ok("0 0 * * *"),
        "hourly" => Ok("0 * * * *"),
        "reboot" => Err(CronError::whole("`@reboot` is not a time; use five fields, or a name such as `@daily`")),
        name if name.starts_with("every") => {
            Err(CronError::whole("`@every` is not cron; use the type `every` with an interval in seconds"))
        }
        _ => Err(CronError::whole(format!(
            "`@{name}` is unknown; the names are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly"
        ))),
    }
}

fn wrong_count(fields: &[&str]) -> CronError {
    let count = fields.len();
    let hint = match count {
        6 | 7 => "; seconds and years are not supported; for seconds use the type `every`",
        _ => "",
    };
    CronError::whole(format!(
        "has {count} {}, but needs five: minute, hour, day of month, month, weekday{hint}",
        if count == 1 { "field" } else { "fields" }
    ))
}

fn parse_field(field: CronField, text: &str) -> Result<Field, CronError> {
    let mut parsed = Field::default();
    for item in text.split(',') {
        parse_item(field, item, &mut parsed)?;
    }
    Ok(parsed)
}

fn parse_item(field: CronField, item: &str, parsed: &mut Field) -> Result<(), CronError> {
    if item.is_empty() {
        return Err(CronError::of(field, format!("an item of the list is empty; {}", field.allowed())));
    }
    if let Some(reason) = foreign(field, item) {
        return Err(CronError::of(field, reason));
    }
    if field == CronField::DayOfMonth && item.eq_ignore_ascii_case("L") {
        parsed.last = true;
        return Ok(());
    }
    if field == CronField::Weekday && parse_weekday_of_month(item, parsed)? {
        return Ok(());
    }
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(parse_step(field, item, step)?)),
        None => (item, None),
    };
    let (least, greatest) = field.range();
    let (start, end) = if range == "*" {
        // Seven is Sunday again, which `*` already includes.
        (least, if field == CronField::Weekday { 6 } else { greatest })
    } else if let Some((start, end)) = range.split_once('-') {
        parse_range(field, item, start, end)?
    } else {
        let value = parse_value(field, item, range)?;
        if step.is_some() {
            let end = if field == CronField::Weekday { 6 } else { greatest };
            return Err(CronError::of(
                field,
                format!("`{item}` has a step but no range; write `{range}-{end}/{}` or `*/{0}`", step.unwrap_or(1)),
            ));
        }
        (value, value)
    };
    parsed.any |= range == "*" && step.is_none_or(|step| step == 1);
    for value in (start..=end).step_by(usize::from(step.unwrap_or(1))) {
        parsed.bits |= 1 << value;
    }
    Ok(())
}

/// Detects syntax of other programs.
fn foreign(field: CronField, item: &str) -> Option<String> {
    let upper = item.to_ascii_uppercase();
    if item.contains('?') {
        return Some(format!("`{item}`: `?` is not supported; use `*`"));
    }
    if upper.starts_with('H') && field != CronField::Weekday {
        return Some(format!("`{item}`: `H` is not supported; {}", field.allowed()));
    }
    match field {
        CronField::DayOfMonth if upper.contains('W') => {
            Some(format!("`{item}`: the nearest weekday (`W`) is not supported; {}", field.allowed()))
        }
        CronField::DayOfMonth if upper.starts_with("L-") => {
            Some(format!("`{item}`: days before the last are not supported; {}", field.allowed()))
        }
        CronField::Weekday if upper == "L" => {
            Some(format!("`{item}`: specify the weekday, such as `5L` for the last Friday; {}", field.allowed()))
        }
        _ => None,
    }
}

/// Parses `5L` and `1#2`; returns `false` for other items.
fn parse_weekday_of_month(item: &str, parsed: &mut Field) -> Result<bool, CronError> {
    let field = CronField::Weekday;
    if let Some((weekday, week)) = item.split_once('#') {
        let weekday = parse_value(field, item, weekday)? % 7;
        let week = match week.as_bytes() {
            [digit @ b'1'..=b'5'] => usize::from(digit - b'1'),
            _ => {
                return Err(CronError::of(field, format!("`{item}`: the number after `#` must be 1 to 5")));
            }
        };
        parsed.nth_weekdays[week] |= 1 << weekday;
        return Ok(true);
    }
    if let Some(weekday) = item.strip_suffix(['L', 'l']) {
        let weekday = parse_value(field, item, weekday)? % 7;
        parsed.last_weekdays |= 1 << weekday;
        return Ok(true);
    }
    Ok(false)
}

fn parse_range(field: CronField, item: &str, start: &str, end: &str) -> Result<(u8, u8), CronError> {
    let from = parse_value(field, item, start)?;
    let mut to = parse_value(field, item, end)?;
    // In FRI-SUN, Sunday is the end of the week.
    if field == CronField::Weekday && to == 0 && from > 0 {
        to = 7;
    }
    if from > to {
        let (least, greatest) = field.range();
        let greatest = if field == CronField::Weekday { 6 } else { greatest };
        return Err(CronError::of(
            field,
            format!("`{item}` runs backwards; write `{from}-{greatest},{least}-{to}` to wrap around the end"),
        ));
    }
    Ok((from, to))
}

fn parse_step(field: CronField, item: &str, step: &str) -> Result<u8, CronError> {
    let (_, greatest) = field.range();
    let number = parse_number(step).ok_or_else(|| {
        CronError::of(field, format!("`{item}`: the step after `/` must be a whole number from 1 to {greatest}"))
    })?;
    match u8::try_from(number) {
        Ok(0) => Err(CronError::of(field, format!("`{item}`: the step must not be 0; use 1 to {greatest}"))),
        Ok(step) if step <= greatest => Ok(step),
        _ => Err(CronError::of(
            field,
            format!(
                "`{item}`: a step of {number} exceeds the maximum of the field, {greatest}; for long intervals use the \
                 type `every`"
            ),
        )),
    }
}

fn parse_value(field: CronField, item: &str, text: &str) -> Result<u8, CronError> {
    let names: &[&str] = match field {
        CronField::Month => &MONTHS,
        CronField::Weekday => &WEEKDAYS,
        _ => &[],
    };
    if let Some(index) = names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        let first = u8::from(field == CronField::Month);
        return Ok(first + u8::try_from(index).unwrap_or(0));
    }
    let Some(number) = parse_number(text) else {
        let reason =
            if text.is_empty() { format!("`{item}`: a value is missing") } else { format!("`{text}` is not a value") };
        return Err(CronError::of(field, format!("{reason}; {}", field.allowed())));
    };
    let (least, greatest) = field.range();
    match u8::try_from(number) {
        Ok(value) if (least..=greatest).contains(&value) => Ok(value),
        _ => Err(CronError::of(field, format!("{number} is out of range; {}", field.allowed()))),
    }
}

/// Parses one to three digits.
fn parse_number(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}
