//! Parses the Kubernetes quantities in bandwidth annotations.

/// Parses a rate in bits per second. Rounds up to whole bits, and then refuses rates below 1k and above 1P.
pub fn rate(text: &str) -> Result<u64, &'static str> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, suffix) = text.split_at_checked(end).unwrap_or((text, ""));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let mantissa: u128 = format!("{whole}{part}").parse().map_err(|_| MALFORMED)?;
    let decimals = i32::try_from(part.len()).map_err(|_| MALFORMED)?;
    let (multiplier, exponent) = scale(suffix).ok_or(MALFORMED)?;
    let value = || {
        let exponent = exponent.checked_sub(decimals)?;
        let power = 10u128.checked_pow(exponent.unsigned_abs())?;
        let value = mantissa.checked_mul(multiplier)?;
        let value = if exponent < 0 { value.div_ceil(power) } else { value.checked_mul(power)? };
        u64::try_from(value).ok().filter(|value| (LOWEST_RATE..=HIGHEST_RATE).contains(value))
    };
    value().ok_or(RANGE)
}

/// The multiplier of a suffix: an integer, and an exponent of ten.
fn scale(suffix: &str) -> Option<(u128, i32)> {
    Some(match suffix {
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "" => (1, 0),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => (1, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

const MALFORMED: &str = "not a quantity";
const RANGE: &str = "the rate must be between 1k and 1P bits per second";
const LOWEST_RATE: u64 = 1_000;
const HIGHEST_RATE: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests;
