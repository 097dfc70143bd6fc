//! Tests of tokens: their format, their single use, their lifetime and their maximum number.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::{LIFETIME, MOST_PENDING, Tokens};

fn counter(from: u64) -> impl FnMut() -> [u8; 6] {
    let mut next = from;
    move || {
        next += 1;
        let [.., a, b, c, d, e, f] = next.to_be_bytes();
        [a, b, c, d, e, f]
    }
}

#[test]
fn a_token_is_eight_characters_that_need_no_escape() {
    let mut tokens = Tokens::default();
    let token = tokens.issue((), Instant::now(), || [0xff, 0xfb, 0xfe, 0xff, 0xff, 0xff]).unwrap();
    assert_eq!(token, "__v-____");
    assert_eq!(token.len(), 8);
}

#[test]
fn a_token_is_good_once() {
    let (mut tokens, now) = (Tokens::default(), Instant::now());
    let token = tokens.issue("a", now, counter(0)).unwrap();
    assert_eq!(tokens.redeem("AAAAAAAA", now), None);
    assert_eq!(tokens.redeem(&token, now), Some("a"));
    assert_eq!(tokens.redeem(&token, now), None);
}

#[test]
fn a_token_is_good_for_a_minute() {
    let (mut tokens, now) = (Tokens::default(), Instant::now());
    let mut random = counter(0);
    let tokens_of_now: Vec<String> =
        (0..2).map(|n| tokens.issue(n, now, &mut random).unwrap()).collect();
    let last = now + LIFETIME - Duration::from_nanos(1);
    assert_eq!(tokens.redeem(&tokens_of_now[0], last), Some(0));
    assert_eq!(tokens.redeem(&tokens_of_now[1], now + LIFETIME), None);
}

#[test]
fn a_token_that_is_taken_is_drawn_again() {
    let (mut tokens, now) = (Tokens::default(), Instant::now());
    let first = tokens.issue("a", now, counter(0)).unwrap();
    let second = tokens.issue("b", now, counter(0)).unwrap();
    assert_ne!(first, second);
    assert_eq!(tokens.redeem(&first, now), Some("a"));
    assert_eq!(tokens.redeem(&second, now), Some("b"));
}

#[test]
fn more_than_a_thousand_are_refused_until_some_are_used_or_old() {
    let (mut tokens, now) = (Tokens::default(), Instant::now());
    let mut random = counter(0);
    let mut issue = |tokens: &mut Tokens<()>, at| tokens.issue((), at, &mut random);
    let first = issue(&mut tokens, now).unwrap();
    for _ in 1..MOST_PENDING {
        issue(&mut tokens, now).unwrap();
    }
    assert_eq!(issue(&mut tokens, now), None);
    tokens.redeem(&first, now).unwrap();
    assert!(issue(&mut tokens, now).is_some());
    assert_eq!(issue(&mut tokens, now), None);
    assert!(issue(&mut tokens, now + LIFETIME).is_some());
}

proptest! {
    #[test]
    fn only_what_was_issued_is_redeemed(texts in prop::collection::vec(".{0,12}", 0..20)) {
        let (mut tokens, now) = (Tokens::default(), Instant::now());
        let token = tokens.issue((), now, counter(7)).unwrap();
        for text in texts.iter().filter(|text| **text != token) {
            prop_assert_eq!(tokens.redeem(text, now), None);
        }
        prop_assert_eq!(tokens.redeem(&token, now), Some(()));
    }
}
