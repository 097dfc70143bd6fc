//! Converts the conformance page to a complete HTML document. Only the part of Markdown that `page` uses is supported.

pub(crate) fn from(markdown: &str) -> String {
    let blocks = markdown.split("\n\n").map(|block| block.trim_matches('\n'));
    let body: String = blocks.filter(|block| !block.is_empty()).map(block).collect();
    format!("{HEAD}{body}")
}

fn block(text: &str) -> String {
    if let Some(heading) = text.strip_prefix("## ") {
        format!("<h2>{}</h2>\n", inline(heading))
    } else if let Some(heading) = text.strip_prefix("# ") {
        format!("<h1>{}</h1>\n", inline(heading))
    } else if text.starts_with('|') {
        let lines = text.lines().enumerate().filter(|(place, _)| *place != 1);
        let rows = lines.map(|(place, line)| row(line, if place == 0 { "th" } else { "td" }));
        format!("<table>\n{}</table>\n", rows.collect::<String>())
    } else {
        format!("<p>{}</p>\n", inline(text))
    }
}

fn row(line: &str, element: &str) -> String {
    // In a Markdown table, a bar inside a cell has a backslash before it.
    let line = line.replace("\\|", "\u{1}");
    let cells = line.trim_matches('|').split('|');
    let cells = cells.map(|cell| format!("<{element}>{}</{element}>", inline(cell.trim())));
    format!("<tr>{}</tr>\n", cells.collect::<String>().replace('\u{1}', "|"))
}

/// Converts bold text, and code between backticks.
fn inline(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let spans = text.split('`').enumerate();
    spans
        .map(|(place, span)| match place % 2 {
            0 => marked(span, "**", "b"),
            _ => format!("<code>{span}</code>"),
        })
        .collect()
}

fn marked(text: &str, mark: &str, element: &str) -> String {
    let spans = text.split(mark).enumerate();
    spans
        .map(|(place, span)| match place % 2 {
            0 => span.to_owned(),
            _ => format!("<{element}>{span}</{element}>"),
        })
        .collect()
}

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>dockbridge: conformance</title>
<style>
body { font: 16px/1.5 sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }
table { border-collapse: collapse; }
th, td { border: 1px solid #bbb; padding: 0.3em 0.6em; text-align: left; vertical-align: top; }
b { color: #b00; }
</style>
";
