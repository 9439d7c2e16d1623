//! The form parser against literal forms, and against anything at all.

use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use super::{Node, find_value};
use crate::limits::{FORM_LIST_MAX, FORM_NESTING_MAX, FORM_PARAMETERS_MAX};

fn parse(form: &str) -> Result<Node, String> {
    let mut root = Node::default();
    root.add_all(form.as_bytes())
        .map(|()| root)
        .map_err(|error| error.to_string())
}

#[test]
fn names_become_a_tree_and_unread_values_are_named() {
    let root =
        parse("Action=X&Filter.1.Name=a%20b+c&Filter.1.Value.1=%C3%A9&X-Amz-Date=1").expect("a good form");
    assert_eq!(root.first_unread().as_deref(), Some("Filter.1.Name"));
    let filter = root
        .child("Filter")
        .and_then(|node| node.child("1"))
        .expect("one filter");
    assert_eq!(filter.child("Name").and_then(Node::value), Some("a b c"));
    assert_eq!(root.first_unread().as_deref(), Some("Filter.1.Value.1"));
    let values = filter
        .child("Value")
        .expect("values")
        .numbered()
        .expect("within bounds");
    assert_eq!(values[0].1.value(), Some("é"));
    assert_eq!(root.first_unread(), None);
}

#[test]
fn a_list_with_a_hole_is_refused() {
    let numbers = |form: &str| {
        let root = parse(form).expect("a good form");
        let ids = root.child("Id").expect("ids");
        ids.numbered().map(|entries| entries.len())
    };
    assert_eq!(numbers("Id.1=a&Id.2=b").expect("dense"), 2);
    assert_eq!(numbers("Id.Name=a").expect("no entries"), 0);
    for form in ["Id.1=a&Id.3=c", "Id.2=b", "Id.0=a&Id.1=b", "Id.1=a&Id.01=x"] {
        assert!(numbers(form).is_err(), "{form}");
    }
}

#[test]
fn broken_forms_are_refused() {
    for form in ["A=%", "A=%1", "A=%GG", "A=%FF", "A=1&A=2", "A=%00", "%01=1"] {
        assert!(parse(form).is_err(), "{form}");
    }
    for form in ["", "&&", "A", "A=", "=", "=1", "..=1", "A=b=c", "A=1\n"] {
        assert!(parse(form).is_ok(), "{form}");
    }
}

#[test]
fn bounds_hold() {
    let many = |count: usize| {
        (0..count)
            .map(|n| format!("A{n}=1"))
            .collect::<Vec<_>>()
            .join("&")
    };
    assert!(parse(&many(FORM_PARAMETERS_MAX)).is_ok());
    assert!(parse(&many(FORM_PARAMETERS_MAX + 1)).is_err());
    let deep = |depth: usize| format!("{}=1", vec!["a"; depth].join("."));
    assert!(parse(&deep(FORM_NESTING_MAX)).is_ok());
    assert!(parse(&deep(FORM_NESTING_MAX + 1)).is_err());
    let list = |count: usize| {
        (1..=count)
            .map(|n| format!("L.{n}=1"))
            .collect::<Vec<_>>()
            .join("&")
    };
    let numbered = |count| {
        parse(&list(count))
            .expect("few parameters")
            .child("L")
            .map(|l| l.numbered().is_ok())
    };
    assert_eq!(numbered(FORM_LIST_MAX), Some(true));
    assert_eq!(numbered(FORM_LIST_MAX + 1), Some(false));
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(form in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut root = Node::default();
        let whole = root.add_all(&form);
        let action = find_value(&form, "Action");
        if whole.is_ok() {
            prop_assert!(action.is_ok());
            let _ = root.first_unread();
        }
    }

    #[test]
    fn what_clients_escape_is_read_back(name in "[A-Za-z]{1,8}(\\.[A-Za-z0-9]{1,4}){0,4}", value in "[^\\p{Cc}\\p{Co}\\p{Cn}]{0,40}") {
        let escaped: String = percent_encoding::utf8_percent_encode(&value, percent_encoding::NON_ALPHANUMERIC).collect();
        let root = parse(&format!("{name}={escaped}")).expect("a good form");
        let node = name.split('.').try_fold(&root, |node, step| node.child(step)).expect("the name is there");
        prop_assert_eq!(node.value(), Some(value.as_str()));
    }
}
