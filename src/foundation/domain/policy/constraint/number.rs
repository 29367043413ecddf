//! Numbers and truth values, parsed as the reference's language runtime does.
//!
//! Numbers follow the literals of Go: a sign, decimal or hexadecimal digits (the latter with a binary exponent), underscores
//! between digits, and the words for infinity and "not a number". A number too large for 64 bits is refused.

pub(super) fn parse_number(text: &str) -> Option<f64> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'+' => (1.0, &text[1..]),
        b'-' => (-1.0, &text[1..]),
        _ => (1.0, text),
    };
    let lower = unsigned.to_ascii_lowercase();
    match lower.as_str() {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        "nan" if unsigned.len() == text.len() => return Some(f64::NAN),
        _ => {}
    }
    let digits = without_underscores(&lower)?;
    // Like the reference, `0x` alone is not long enough to be a prefix.
    let number = match digits.strip_prefix("0x") {
        Some(hexadecimal) => parse_hexadecimal(hexadecimal)?,
        None if is_decimal(&digits) => digits.parse().ok()?,
        None => return None,
    };
    number.is_finite().then_some(sign * number)
}

/// Parses a truth value.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Removes underscores, each of which must be between digits (or after the prefix of a hexadecimal number).
fn without_underscores(text: &str) -> Option<String> {
    if !text.contains('_') {
        return Some(text.to_owned());
    }
    let is_hexadecimal = text.starts_with("0x");
    let is_digit =
        |character: char| character.is_ascii_digit() || (is_hexadecimal && character.is_ascii_hexdigit());
    let after_prefix = if is_hexadecimal { 2 } else { 0 };
    let mut previous_is_digit = is_hexadecimal;
    let mut previous_is_underscore = false;
    for character in text[after_prefix..].chars() {
        let is_underscore = character == '_';
        let is_digit = is_digit(character);
        if (is_underscore && !previous_is_digit) || (previous_is_underscore && !is_digit) {
            return None;
        }
        (previous_is_digit, previous_is_underscore) = (is_digit, is_underscore);
    }
    (!previous_is_underscore).then(|| text.replace('_', ""))
}

/// Returns whether the text is digits with at most one dot, at least one digit, and optionally an exponent.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once('e').map_or((text, None), |(left, right)| (left, Some(right)));
    is_mantissa(mantissa, |byte| byte.is_ascii_digit()) && exponent.is_none_or(is_exponent)
}

fn is_mantissa(text: &str, is_digit: fn(u8) -> bool) -> bool {
    let dots = text.bytes().filter(|byte| *byte == b'.').count();
    dots <= 1 && text.len() > dots && text.bytes().all(|byte| byte == b'.' || is_digit(byte))
}

fn is_exponent(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses the text after `0x`: a mantissa and a mandatory binary exponent; rounds to the nearest, ties to even.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    if !is_mantissa(mantissa, |byte| byte.is_ascii_hexdigit()) || !is_exponent(exponent) {
        return None;
    }
    let written: i64 = exponent.strip_prefix('+').unwrap_or(exponent).parse().unwrap_or_else(|_| {
        if exponent.starts_with('-') { i64::from(i32::MIN) } else { i64::from(i32::MAX) }
    });
    let mut exponent = written.clamp(-100_000, 100_000);
    let mut significand: u64 = 0;
    let mut is_after_dot = false;
    let mut has_lost_bits = false;
    for byte in mantissa.bytes() {
        let Some(digit) = char::from(byte).to_digit(16) else {
            is_after_dot = true;
            continue;
        };
        if significand >> 59 == 0 {
            significand = (significand << 4) | u64::from(digit);
            exponent -= if is_after_dot { 4 } else { 0 };
        } else {
            has_lost_bits |= digit != 0;
            exponent += if is_after_dot { 0 } else { 4 };
        }
    }
    Some(scale(significand | u64::from(has_lost_bits), exponent))
}

/// Returns `significand * 2^exponent`, rounded once; the lowest bit of the significand may represent lost ones.
fn scale(significand: u64, exponent: i64) -> f64 {
    if significand == 0 {
        return 0.0;
    }
    let highest = 63 - i64::from(significand.leading_zeros());
    let unbiased = highest + exponent;
    if unbiased > 1023 {
        return f64::INFINITY;
    }
    // Number of low bits that do not fit: all beyond 53, and more for numbers too small for a full significand.
    let surplus = (highest - 52).max(-1074 - exponent);
    if surplus <= 0 {
        return significand as f64 * power_of_two(exponent);
    }
    if surplus > 64 {
        return 0.0;
    }
    let wide = u128::from(significand);
    let (kept, lost, half) = (wide >> surplus, wide & ((1 << surplus) - 1), 1_u128 << (surplus - 1));
    let rounded = if lost > half || (lost == half && kept & 1 == 1) { kept + 1 } else { kept };
    rounded as f64 * power_of_two(exponent + surplus)
}

/// Exact from the smallest subnormal to the largest power; a product of a 53-bit integer with it is exact or infinite.
fn power_of_two(exponent: i64) -> f64 {
    if exponent < -1022 {
        // Below the normal range the bits of the number count up from the smallest.
        let shift = (exponent + 1074).clamp(0, 51);
        return f64::from_bits(1 << shift);
    }
    let biased = u64::try_from(exponent.min(1024) + 1023).unwrap_or(0);
    f64::from_bits(biased << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_in_the_reference() {
        let cases = [
            ("5", Some(5.0)),
            ("+12", Some(12.0)),
            ("-0.5", Some(-0.5)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("1e3", Some(1000.0)),
            ("+1_000", Some(1000.0)),
            ("1__0", None),
            ("_1", None),
            ("1_", None),
            ("1_.5", None),
            ("Inf", Some(f64::INFINITY)),
            ("-infinity", Some(f64::NEG_INFINITY)),
            ("infinit", None),
            ("+nan", None),
            ("1e400", None),
            ("-1e400", None),
            ("1e-400", Some(0.0)),
            ("0x10", None),
            ("0x10p0", Some(16.0)),
            ("0x_1p-2", Some(0.25)),
            ("0x.8p1", Some(1.0)),
            ("0x1p-1074", Some(5e-324)),
            ("0x1p-1075", Some(0.0)),
            ("0x1.8p-1074", Some(1e-323)),
            ("0x1p1024", None),
            ("0x1.fffffffffffff8p0", Some(2.0)),
            ("0x1.fffffffffffff7fffp0", Some(1.999_999_999_999_999_8)),
            ("0xp1", None),
            ("", None),
            ("+", None),
            (".", None),
            ("e5", None),
            ("1e", None),
            ("1 ", None),
            ("\"5\"", None),
            ("５", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_number(text), expected, "{text}");
        }
        assert!(parse_number("NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn power_of_two_is_exact_over_the_whole_range() {
        assert_eq!(power_of_two(-1074), 5e-324);
        assert_eq!(power_of_two(-1022), f64::MIN_POSITIVE);
        assert_eq!(power_of_two(0), 1.0);
        assert_eq!(power_of_two(1023), f64::MAX / (2.0 - f64::EPSILON));
        assert_eq!(power_of_two(1024), f64::INFINITY);
    }
}
