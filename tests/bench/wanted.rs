//! Prints the wanted value next to a figure. Nothing fails here, because the machine may be busy.

/// Prints a figure and the most it should be.
pub(crate) fn at_most(what: &str, is: f64, most: f64) {
    let verdict = if is <= most { "as wanted" } else { "TOO MUCH" };
    println!("wanted: {what:<34}{is:>8.2}, at most {most:<8.2}{verdict}");
}
