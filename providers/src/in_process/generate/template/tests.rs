use super::date::show;
use super::*;

fn rendered(source: &str) -> Result<String, String> {
    let refusal = Refusal::default();
    let environment = environment(&refusal);
    let variables = context! { text => " Ab c ", map => context! { a => 1, b => "x" } };
    let rendered = environment.render_named_str("chat_template", source, variables);
    rendered.map_err(|e| one_line(&e))
}

#[test]
fn pythons_methods_that_templates_call_are_there() {
    for (source, expected) in [
        ("[{{ text.strip() }}]", "[Ab c]"),
        ("[{{ text.lstrip() }}{{ text.rstrip() }}]", "[Ab c  Ab c]"),
        ("{{ 'xxaxx'.strip('x') }}", "a"),
        ("{{ text.split() | join('|') }}", "Ab|c"),
        ("{{ 'a</think>b</think>c'.split('</think>')[-1] }}", "c"),
        ("{{ 'a,b,c'.split(',', 1) | join('|') }}", "a|b,c"),
        (
            "{{ text.strip().startswith('Ab') }}{{ text.endswith('x') }}",
            "TrueFalse",
        ),
        (
            "{{ 'it is'.title() }} {{ 'a'.upper() }} {{ 'B'.lower() }}",
            "It Is A b",
        ),
        ("{{ 'aba'.replace('a', 'c') }}", "cbc"),
        (
            "{% for k, v in map.items() %}{{ k }}{{ v }};{% endfor %}",
            "a1;bx;",
        ),
        (
            "{{ map.get('a') }}{{ map.get('z', 'no') }}{{ map.keys() | join }}{{ map.values() | join }}",
            "1noab1x",
        ),
        ("{% if true %}\n  a\n  {% endif %}\nb\n", "  a\nb"),
        (
            "{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}",
            "1",
        ),
    ] {
        let got = rendered(source).map(|s| s.replace("true", "True").replace("false", "False"));
        assert_eq!(got.as_deref(), Ok(expected), "{source}");
    }
    assert!(
        rendered("{{ text.frobnicate() }}")
            .unwrap_err()
            .contains("frobnicate")
    );
}

#[test]
fn dates_are_civil() {
    for (format, seconds, expected) in [
        ("%Y-%m-%d %H:%M:%S", 0, "1970-01-01 00:00:00"),
        ("%d %b %Y", 951_782_400, "29 Feb 2000"),
        (
            "%A, %B %e %y %I %p %%",
            1_735_689_599,
            "Tuesday, December 31 24 11 PM %",
        ),
        ("%F %T %a", 4_107_542_400, "2100-03-01 00:00:00 Mon"),
    ] {
        assert_eq!(show(format, seconds).unwrap(), expected);
    }
    assert!(show("%Q", 0).unwrap_err().to_string().contains("%Q"));
}
