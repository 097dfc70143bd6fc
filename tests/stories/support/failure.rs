//! Lets a story fail with a message.

use std::fmt;

#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Returns a failure with a message, and with the file and line of this macro's call.
macro_rules! fail {
    ($($text:tt)+) => {
        return Err($crate::support::failure::Failure(
            format!("{}:{}: {}", file!(), line!(), format_args!($($text)+)),
        ))
    };
}

/// Returns a failure if the condition is false.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            $crate::support::failure::fail!($($text)+);
        }
    };
}

/// Returns a failure if the two values are not equal. Further arguments are a text about the values.
macro_rules! ensure_eq {
    ($left:expr, $right:expr) => {
        $crate::support::failure::ensure_eq!($left, $right, "")
    };
    ($left:expr, $right:expr, $($text:tt)+) => {
        match (&$left, &$right) {
            (left, right) => {
                if left != right {
                    $crate::support::failure::fail!(
                        "{} is {left:?}, expected {right:?} {}",
                        stringify!($left),
                        format_args!($($text)+),
                    );
                }
            }
        }
    };
}

pub(crate) use {ensure, ensure_eq, fail};
