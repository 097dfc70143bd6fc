//! Tests of terminal sizes that arrive complete, in pieces or several at once, and of invalid sizes.

use proptest::prelude::*;

use super::{InvalidSize, SizeBuffer};
use crate::model::stream::TerminalSize;

fn size(width: u16, height: u16) -> Option<TerminalSize> {
    Some(TerminalSize { width, height })
}

#[test]
fn a_size_is_read() {
    let rows = [
        (r#"{"Width":80,"Height":24}"#, size(80, 24)),
        ("{\"Width\":80,\"Height\":24}\n", size(80, 24)),
        (r#"{ "height": 1, "width": 65535, "other": [1] }"#, size(65535, 1)),
        (r#"{"Width":1,"Height":2}{"Width":3,"Height":4}"#, size(3, 4)),
        (r#"{"Width":1,"Height":2} {"Width":0,"Height":4}"#, size(1, 2)),
        (r#"{"Width":0,"Height":0}"#, None),
        (r#"{"Width":80}"#, None),
        (r#"{"Width":80,"Height":null}"#, None),
        (r#"{"Width":null,"Height":9}{"Width":3,"Height":4}"#, size(3, 4)),
        ("", None),
        (" \n", None),
        (r#"{"Width":80,"Hei"#, None),
    ];
    for (text, read) in rows {
        assert_eq!(SizeBuffer::default().push(text.as_bytes()), Ok(read), "{text}");
    }
}

#[test]
fn an_invalid_size_is_an_error() {
    let endless = format!("{{\"Width\":{}", " ".repeat(5000));
    let rows = [
        "x",
        r#""text""#,
        r#"{"Width":-1}"#,
        r#"{"Width":65536}"#,
        "{]",
        "\u{0}",
        &endless,
        "80 24",
    ];
    for text in rows {
        assert_eq!(SizeBuffer::default().push(text.as_bytes()), Err(InvalidSize), "{text}");
    }
}

proptest! {
    #[test]
    fn it_does_not_matter_where_sizes_are_cut(
        sizes in prop::collection::vec((1_u16.., 1_u16..), 1..5), step in 1_usize..30,
    ) {
        let mut text = String::new();
        for (width, height) in &sizes {
            text.push_str(&format!("{{\"Width\":{width},\"Height\":{height}}}\n"));
        }
        let mut buffer = SizeBuffer::default();
        let mut last = None;
        for piece in text.as_bytes().chunks(step) {
            last = buffer.push(piece).unwrap().or(last);
        }
        let (width, height) = sizes[sizes.len() - 1];
        prop_assert_eq!(last, size(width, height));
    }

    #[test]
    fn no_bytes_make_it_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..10)) {
        let mut buffer = SizeBuffer::default();
        for piece in pieces {
            if buffer.push(&piece).is_err() {
                break;
            }
        }
    }
}
