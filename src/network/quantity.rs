//! Parses Kubernetes quantities, as far as bandwidth annotations need them.

/// Reads a rate in bits per second, rounded up, between 1k and 1P.
///
/// # Errors
/// What is wrong with the text.
pub fn rate(text: &str) -> Result<u64, &'static str> {
    let (digits, suffix) = split(text.strip_prefix('+').unwrap_or(text));
    let value = number(digits)?.times(scale(suffix)?).ok_or(RANGE)?;
    if (LOWEST..=HIGHEST).contains(&value) { Ok(value) } else { Err(RANGE) }
}

/// `mantissa` · 10^-`decimals`.
struct Number {
    mantissa: u128,
    decimals: u32,
}

impl Number {
    /// None if it is out of any sensible range.
    fn times(&self, scale: Scale) -> Option<u64> {
        let (multiplier, exponent) = match scale {
            Scale::Binary(power) => (1u128.checked_shl(power)?, 0),
            Scale::Decimal(power) => (1, power),
        };
        let exponent = exponent.checked_sub(i32::try_from(self.decimals).ok()?)?;
        let power = 10u128.checked_pow(exponent.unsigned_abs())?;
        let value = self.mantissa.checked_mul(multiplier)?;
        let value = if exponent < 0 { value.div_ceil(power) } else { value.checked_mul(power)? };
        u64::try_from(value).ok()
    }
}

#[derive(Clone, Copy)]
enum Scale {
    Binary(u32),
    Decimal(i32),
}

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn number(digits: &str) -> Result<Number, &'static str> {
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let text = format!("{whole}{part}");
    let mantissa = text.parse().map_err(|_| MALFORMED)?;
    let decimals = u32::try_from(part.len()).map_err(|_| MALFORMED)?;
    Ok(Number { mantissa, decimals })
}

fn scale(suffix: &str) -> Result<Scale, &'static str> {
    Ok(match suffix {
        "n" => Scale::Decimal(-9),
        "u" => Scale::Decimal(-6),
        "m" => Scale::Decimal(-3),
        "" => Scale::Decimal(0),
        "k" => Scale::Decimal(3),
        "M" => Scale::Decimal(6),
        "G" => Scale::Decimal(9),
        "T" => Scale::Decimal(12),
        "P" => Scale::Decimal(15),
        "E" => Scale::Decimal(18),
        "Ki" => Scale::Binary(10),
        "Mi" => Scale::Binary(20),
        "Gi" => Scale::Binary(30),
        "Ti" => Scale::Binary(40),
        "Pi" => Scale::Binary(50),
        "Ei" => Scale::Binary(60),
        _ => {
            let power = suffix.strip_prefix(['e', 'E']).ok_or(MALFORMED)?;
            Scale::Decimal(power.parse().map_err(|_| MALFORMED)?)
        }
    })
}

const MALFORMED: &str = "not a quantity";
const RANGE: &str = "must be between 1k and 1P";
const LOWEST: u64 = 1_000;
const HIGHEST: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests;
