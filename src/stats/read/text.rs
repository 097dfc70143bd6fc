//! Parses the kernel's formats of numbers. Skips unknown lines, because newer kernels add lines.

use crate::{
    host::cgroup::limits::V1_NO_LIMIT,
    model::stats::{Limit, Pressure, Stall},
};

/// Parses a number. `max` and numbers above 64 bits become the largest number.
pub(super) fn count(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits || text == "max").then(|| text.parse().unwrap_or(u64::MAX))
}

/// Parses a limit. If there is no limit, cgroup v1 writes -1, or almost the largest number of 63 bits.
pub(super) fn limit(text: &str) -> Option<Limit> {
    match count(text) {
        None => (text.trim() == "-1").then_some(Limit::Unlimited),
        Some(value) if value < V1_NO_LIMIT.unsigned_abs() => Some(Limit::At(value)),
        Some(_) => Some(Limit::Unlimited),
    }
}

/// Parses lines that have a name and a number.
pub(super) fn flat(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, count(value)?))
    })
}

/// Sets each field whose name is in a line of the text to the number in this line times `unit`.
pub(super) fn fill(text: &str, unit: u64, fields: &mut [(&str, &mut Option<u64>)]) {
    for (name, count) in flat(text) {
        for (_, field) in fields.iter_mut().filter(|(known, _)| *known == name) {
            **field = Some(count.saturating_mul(unit));
        }
    }
}

/// Parses lines that have a device and pairs of `name=number`.
pub(super) fn nested(text: &str) -> impl Iterator<Item = ((u32, u32), &str, u64)> {
    text.lines().filter_map(|line| line.split_once(' ')).flat_map(|(device, pairs)| {
        let device = device_number(device);
        let pairs = pairs.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.filter_map(move |(name, value)| Some((device?, name, count(value)?)))
    })
}

/// Parses lines that have a device, an operation and a number.
pub(super) fn operations(text: &str) -> impl Iterator<Item = ((u32, u32), &str, u64)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (device, name) = (device_number(words.next()?)?, words.next()?);
        Some((device, name, count(words.next()?)?))
    })
}

/// Parses pressure stall information. `None` if the text has no such information, for example if it is empty.
pub(super) fn pressure(text: &str) -> Option<Pressure> {
    let mut read = Pressure::default();
    let mut any = false;
    for line in text.lines() {
        let line = line.trim();
        if let Some(pairs) = line.strip_prefix("some ") {
            (read.some, any) = (stall(pairs), true);
        } else if let Some(pairs) = line.strip_prefix("full ") {
            (read.full, any) = (stall(pairs), true);
        }
    }
    any.then_some(read)
}

fn stall(pairs: &str) -> Stall {
    let mut stall = Stall::default();
    let percent = |text: &str| text.parse().ok().filter(|value: &f64| value.is_finite());
    for (name, value) in pairs.split_ascii_whitespace().filter_map(|pair| pair.split_once('=')) {
        match name {
            "total" => stall.total = count(value).unwrap_or_default(),
            "avg10" => stall.avg10 = percent(value).unwrap_or_default(),
            "avg60" => stall.avg60 = percent(value).unwrap_or_default(),
            "avg300" => stall.avg300 = percent(value).unwrap_or_default(),
            _ => {}
        }
    }
    stall
}

fn device_number(device: &str) -> Option<(u32, u32)> {
    let (major, minor) = device.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
