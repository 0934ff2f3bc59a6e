//! The small grammars of the command line: numbers, durations, orders, lists of policies.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::problem::Problem;
use crate::lab::Order;
use crate::lab::command::{Command, CommandError};
use crate::replay::policy::Policy;

/// A whole number within a range.
pub fn number<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("a whole number from {} to {} is needed", range.start(), range.end()))
    }
}

/// A whole number, 0 included.
pub fn seed(text: &str) -> Result<u64, String> {
    number(0..=u64::MAX)(text)
}

/// A duration with its unit: `500ms`, `60s`, `1.5min`, `2 h`, `1d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 5] = [("ms", 0.001), ("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86400.0)];
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim_start());
    let Ok(number) = number.parse::<f64>() else {
        return Err("a duration is a number and its unit, as in 60s or 1.5min".to_owned());
    };
    let Some((_, seconds)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("a duration needs its unit (ms, s, min, h, d), as in {number}s"));
    };
    let duration = Duration::try_from_secs_f64(number * seconds).ok();
    duration.filter(|it| *it <= LONGEST).ok_or_else(|| format!("at most {} are possible", shown(LONGEST)))
}

/// Longer than this nobody waits; in nanoseconds it is still a u64.
const LONGEST: Duration = Duration::from_hours(24 * 36_500);

/// A duration as it could have been typed, in the largest unit in which it is a whole number.
pub fn shown(duration: Duration) -> String {
    const UNITS: [(&str, u128); 4] = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)];
    let ms = duration.as_millis();
    let whole = UNITS.iter().find(|(_, each)| ms >= *each && ms.is_multiple_of(*each));
    let (unit, each) = whole.unwrap_or(&("ms", 1));
    format!("{} {unit}", ms / each)
}

/// A size: bytes, or a number with kB, MB, GB, TB (each 1024 times the one before, as in PostgreSQL), KiB, MiB, GiB.
pub fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&[&str], u32); 5] =
        [(&[""], 0), (&["kB", "KiB"], 10), (&["MB", "MiB"], 20), (&["GB", "GiB"], 30), (&["TB", "TiB"], 40)];
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim_start());
    let shift = UNITS.iter().find(|(names, _)| names.contains(&unit)).map(|(_, shift)| *shift);
    let bytes =
        number.parse::<u64>().ok().zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift));
    bytes
        .ok_or_else(|| "a size is a number of bytes, or has a unit: kB, MB, GB, TB, KiB, MiB, GiB".to_owned())
}

/// The order of arms within a round.
pub fn order(text: &str) -> Result<Order, String> {
    let found = Order::ALL.iter().find(|(name, _)| *name == text);
    found
        .map(|(_, order)| *order)
        .ok_or_else(|| format!("one of {}", Order::ALL.map(|(name, _)| name).join(", ")))
}

/// The policies named in every `--policy`, in the order given, none twice.
pub fn policies(given: &[String]) -> Result<Vec<Policy>, Problem> {
    let mut policies: Vec<Policy> = Vec::new();
    for text in given {
        let policy: Policy = text.parse().map_err(|error: crate::replay::policy::PolicyError| {
            Problem::usage(error.to_string()).hint(error.hint())
        })?;
        if policies.contains(&policy) {
            return Err(Problem::usage(format!("the arm \"{policy}\" is given twice (as \"{text}\")"))
                .hint(Some("--aa runs a second copy of the baseline")));
        }
        policies.push(policy);
    }
    Ok(policies)
}

/// The commands of every `--command`, in the order given, none named as another arm is.
pub fn commands(given: &[String], policies: &[Policy]) -> Result<Vec<Command>, Problem> {
    let mut commands: Vec<Command> = Vec::new();
    for text in given {
        let command: Command = text.parse().map_err(|error: CommandError| {
            Problem::usage(error.to_string()).hint(Some(CommandError::hint()))
        })?;
        let name = command.name();
        if policies.iter().any(|policy| policy.to_string() == name)
            || commands.iter().any(|known| known.name() == name)
        {
            let message = format!("the arm \"{name}\" is given twice (as --command '{text}')");
            return Err(Problem::usage(message).hint(Some("give the command another name")));
        }
        commands.push(command);
    }
    Ok(commands)
}

/// The values of an option that makes arms, none twice.
pub fn none_twice<T: Copy + PartialEq + Display>(option: &str, given: &[T]) -> Result<Vec<T>, Problem> {
    for (position, value) in given.iter().enumerate() {
        if given[..position].contains(value) {
            return Err(Problem::usage(format!("{option} {value} is given twice")));
        }
    }
    Ok(given.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_its_unit() {
        assert_eq!(duration("60s"), Ok(Duration::from_mins(1)));
        assert_eq!(duration("1.5 min"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2d"), Ok(Duration::from_hours(48)));
        assert!(duration("60").is_err_and(|error| error.contains("60s")));
        for wrong in ["", "s", "-1s", "1 fortnight", "1,5s", "1e3s", "nan s", "99999999999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration("9999999999d"), Err("at most 36500 d are possible".to_owned()));
    }

    #[test]
    fn a_duration_is_shown_as_it_could_have_been_typed() {
        for text in ["1500 ms", "90 s", "5 min", "30 h", "30 d"] {
            assert_eq!(duration(text).map(shown).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_no_number_is_told_the_range() {
        let rounds = number(1..=1000_u32);
        assert_eq!(rounds("1000"), Ok(1000));
        for wrong in ["", "0", "1001", "-1", "1.5", "x"] {
            assert_eq!(rounds(wrong), Err("a whole number from 1 to 1000 is needed".to_owned()), "{wrong}");
        }
    }

    #[test]
    fn a_size_takes_the_units_of_postgresql() {
        assert_eq!((size("8192"), size("64kB"), size("4 GiB")), (Ok(8192), Ok(65536), Ok(4 << 30)));
        for wrong in ["", "kB", "1.5GB", "-1", "1 kb", "99999999TB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_same_arm_twice_is_wrong_usage_under_whatever_name() {
        let twice = policies(&["pg-15".to_owned(), "pg-14".to_owned()]);
        assert!(
            twice.is_err_and(|problem| problem
                .to_string()
                .contains("\"pg-9.6\" is given twice (as \"pg-14\")"))
        );
    }

    #[test]
    fn a_command_is_named_as_no_other_arm_is() {
        let named = |names: &[&str]| {
            let texts: Vec<String> =
                names.iter().map(|name| format!("{name}=cp -a {{src}} {{dst}}")).collect();
            commands(&texts, &["pg-15".parse().expect("a policy")]).map(|commands| commands.len())
        };
        assert_eq!(named(&["cp", "cp2"]), Ok(2));
        for twice in [["cp", "cp"], ["cp", "pg-9.6"]] {
            assert!(named(&twice).is_err_and(|problem| problem.to_string().contains("is given twice")));
        }
    }
}
