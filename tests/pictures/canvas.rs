//! Writes a picture as SVG, with colours for light and dark mode, system fonts, a title and a description.

use std::fmt::Write as _;

/// A picture of fixed width, which has space for terminal lines of 56 characters and can be read on a phone.
pub(crate) struct Canvas {
    body: String,
    style: String,
}

/// The width of every picture, in drawing units.
pub(crate) const WIDTH: f64 = 480.0;

impl Canvas {
    /// A picture with only a headline and, below it, a line that describes the picture.
    pub(crate) fn new(headline: &str, below: &str) -> Self {
        let mut canvas = Self::empty();
        canvas.text(20.0, 34.0, "h", headline);
        canvas.text(20.0, 54.0, "s", below);
        canvas
    }

    /// A picture without any element.
    pub(crate) const fn empty() -> Self {
        Self { body: String::new(), style: String::new() }
    }

    /// Adds the elements of another picture before the existing elements, so the existing elements are drawn
    /// over the added ones.
    pub(crate) fn put_behind(&mut self, other: &Self) {
        self.body.insert_str(0, &other.body);
    }

    /// Adds a text whose baseline is at this position.
    pub(crate) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escape(text);
        self.raw(&format!("<text x=\"{}\" y=\"{}\" class=\"{class}\">{text}</text>", n(x), n(y)));
    }

    /// Adds a box with round corners.
    pub(crate) fn rect(&mut self, at: (f64, f64), size: (f64, f64), class: &str) {
        let (x, y, width, height) = (n(at.0), n(at.1), n(size.0), n(size.1));
        let round = if size.0.min(size.1) > 16.0 { 6 } else { 2 };
        self.raw(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\" class=\"{class}\"/>"
        ));
    }

    /// Adds a box with text in its middle.
    pub(crate) fn labelled(&mut self, at: (f64, f64), size: (f64, f64), class: &str, text: &str) {
        self.rect(at, size, class);
        self.text(at.0 + size.0 / 2.0, at.1 + size.1 / 2.0 + 4.8, "t mid", text);
    }

    /// Adds an SVG path.
    pub(crate) fn path(&mut self, commands: &str, class: &str) {
        self.raw(&format!("<path d=\"{commands}\" class=\"{class}\"/>"));
    }

    /// Adds a straight line.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let commands = format!("M{} {}L{} {}", n(from.0), n(from.1), n(to.0), n(to.1));
        self.path(&commands, class);
    }

    /// Adds an SVG element as it is.
    pub(crate) fn raw(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// Adds rules to the style sheet.
    pub(crate) fn style(&mut self, rules: &str) {
        self.style.push_str(rules);
    }

    /// The text of the SVG file. `title` and `about` are for people who cannot see the picture.
    pub(crate) fn finish(&self, height: f64, title: &str, about: &str) -> String {
        let (width, tall) = (n(WIDTH), n(height));
        let mut file = String::new();
        let _ = write!(
            file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {tall}\" width=\"600\" height=\"{}\" \
             role=\"img\" aria-labelledby=\"title about\">\n\
             <title id=\"title\">{}</title>\n<desc id=\"about\">{}</desc>\n<style>\n{}</style>\n{}\n\
             <rect width=\"{width}\" height=\"{tall}\" rx=\"10\" class=\"page\"/>\n{}</svg>\n",
            n(height * 1.25),
            escape(title),
            escape(about),
            variables() + &with_light(&format!("{STYLE}{}", self.style)),
            with_light(DEFINITIONS),
            self.body,
        );
        file
    }
}

/// The CSS variables of the palette, for light and dark mode.
fn variables() -> String {
    let [light, dark] = [0, 1].map(|shade: usize| {
        let each = PALETTE.iter().map(|(name, shades)| format!("--{name}:{}", shades[shade]));
        each.collect::<Vec<_>>().join(";")
    });
    format!("svg{{{light}}}\n@media(prefers-color-scheme:dark){{svg{{{dark}}}}}")
}

/// The CSS rules, with the colour of the light mode before each variable, because some programs do not
/// support variables.
fn with_light(rules: &str) -> String {
    PALETTE.iter().fold(rules.to_owned(), |rules, (name, [light, _])| {
        ["fill", "stroke"].into_iter().fold(rules, |rules, property| {
            let variable = format!("{property}:var(--{name})");
            rules.replace(&variable, &format!("{property}:{light};{variable}"))
        })
    })
}

/// A number with one decimal place at most.
pub(crate) fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Milliseconds, formatted for people.
pub(crate) fn ms(value: f64) -> String {
    if value < 9.95 { format!("{value:.1} ms") } else { format!("{value:.0} ms") }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The names of the palette's colours, with their values in light and dark mode.
const PALETTE: [(&str, [&str; 2]); 14] = [
    ("page", ["#fbfcfe", "#111a2c"]),
    ("ink", ["#1e293b", "#e6ecf5"]),
    ("soft", ["#5b6b80", "#9fb0c8"]),
    ("line", ["#b8c4d4", "#46566f"]),
    ("a", ["#dbe8fd", "#1d3557"]),
    ("A", ["#2f6fdb", "#69a5ff"]),
    ("b", ["#d3f1ea", "#123f3b"]),
    ("B", ["#0f8f7e", "#3fcdb6"]),
    ("c", ["#fdeccb", "#4a3413"]),
    ("C", ["#b7791f", "#f0b64b"]),
    ("d", ["#e8edf3", "#233047"]),
    ("D", ["#94a3b8", "#64748b"]),
    ("r", ["#fbdcdc", "#4c1f26"]),
    ("R", ["#c53030", "#f58a8a"]),
];

/// Of the CSS classes, `a` to `d` and `r` are the colours of boxes and bars, `l` is for lines, `e` for lines with an
/// arrowhead.
const STYLE: &str = "
text{font:14px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','Liberation Sans',sans-serif;fill:var(--ink)}
.h{font-size:18px;font-weight:600}.s{font-size:13px;fill:var(--soft)}.k{font-weight:600}.mid{text-anchor:middle}.end{text-anchor:end}
.m{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace;white-space:pre}
.page{fill:var(--page)}.a{fill:var(--a);stroke:var(--A)}.b{fill:var(--b);stroke:var(--B)}.c{fill:var(--c);stroke:var(--C)}
.d{fill:var(--d);stroke:var(--D)}.r{fill:var(--r);stroke:var(--R)}.l,.e{fill:none;stroke:var(--line);stroke-width:1.3}
.e{stroke:var(--soft);marker-end:url(#tip)}.dash{stroke-dasharray:4 3}
";

const DEFINITIONS: &str = "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" \
                           markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" style=\"fill:var(--soft)\"/></marker></defs>";
