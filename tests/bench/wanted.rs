//! Prints the wanted value next to a measured figure. A figure beyond the wanted value does not fail the
//! benchmark, because the machine may be busy.

/// Prints a measured figure and the largest value that is wanted.
pub(crate) fn at_most(what: &str, is: f64, most: f64) {
    let verdict = if is <= most { "as wanted" } else { "TOO MUCH" };
    println!("wanted: {what:<34}{is:>8.2}, at most {most:<8.2}{verdict}");
}
