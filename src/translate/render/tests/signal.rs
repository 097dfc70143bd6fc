//! Tests of stop signals in different spellings.

use crate::{translate::render::container, wire::cri};

#[test]
fn signals_are_read_in_every_spelling() {
    use cri::Signal;
    for (spelling, expected) in [
        (None, Signal::Sigterm),
        (Some(""), Signal::Sigterm),
        (Some("SIGTERM"), Signal::Sigterm),
        (Some("term"), Signal::Sigterm),
        (Some("15"), Signal::Sigterm),
        (Some("9"), Signal::Sigkill),
        (Some("29"), Signal::Sigio),
        (Some("RTMIN+3"), Signal::Sigrtminplus3),
        (Some("SIGRTMIN+3"), Signal::Sigrtminplus3),
        (Some("37"), Signal::Sigrtminplus3),
        (Some("RTMAX-2"), Signal::Sigrtmaxminus2),
        (Some("62"), Signal::Sigrtmaxminus2),
        (Some("64"), Signal::Sigrtmax),
        (Some("0"), Signal::RuntimeDefault),
        (Some("99"), Signal::RuntimeDefault),
        (Some("NONSENSE"), Signal::RuntimeDefault),
    ] {
        assert_eq!(container::stop_signal(spelling), expected, "{spelling:?}");
    }
}

#[test]
fn every_signal_survives_both_ways() {
    for number in 1..=65 {
        let spelling = crate::translate::parse::container::stop_signal(number).unwrap();
        assert_eq!(i32::from(container::stop_signal(spelling.as_deref())), number, "{spelling:?}");
    }
}
