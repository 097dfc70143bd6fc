//! A figure above the wanted value does not fail the benchmark, because the machine may be busy.

/// Prints a measured figure, the largest value that is wanted, and whether the figure is larger.
pub(crate) fn at_most(what: &str, is: f64, most: f64) {
    let verdict = if is <= most { "as wanted" } else { "TOO MUCH" };
    println!("wanted: {what:<34}{is:>8.2}, at most {most:<8.2}{verdict}");
}
