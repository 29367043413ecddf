//! Evaluates the expressions of alert rules against scrapes of a hub's `/metrics`, as Prometheus does.
//!
//! Only what the rules use: selectors, `rate`, `histogram_quantile`, `time`, aggregations with `by`, arithmetic and comparisons.

use std::collections::BTreeMap;

use super::Hub;

type Labels = BTreeMap<String, String>;
type Series = Vec<(Labels, f64)>;

/// Comparison of two samples.
type Comparison = fn(f64, f64) -> bool;

/// The metrics of a hub at one instant.
#[derive(Debug, Clone)]
pub struct Scrape {
    at: f64,
    samples: Series,
}

impl Scrape {
    /// Scrapes a hub; one that does not respond is not up, as the scraper of Prometheus reports it.
    pub async fn of(hub: &Hub) -> Scrape {
        Self::of_page(hub.get("/metrics").await.filter(|(status, _)| *status == 200).map(|(_, text)| text))
    }

    /// A scrape of what the target returned; nothing when it did not respond.
    pub fn of_page(text: Option<String>) -> Scrape {
        let up = [("__name__", "up")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let is_up = if text.is_some() { 1.0 } else { 0.0 };
        let text = text.unwrap_or_default();
        let found = text.lines().filter(|line| !line.starts_with('#')).map(sample);
        let mut samples: Series = found.chain([(up.into(), is_up)]).collect();
        for (labels, _) in &mut samples {
            labels.insert("instance".to_owned(), "hub".to_owned());
            labels.insert("job".to_owned(), "evenkeel".to_owned());
        }
        Scrape { at: jiff::Timestamp::now().as_duration().as_secs_f64(), samples }
    }

    /// The same as it is seen later, when the hub reports nothing new.
    pub fn seen_after(&self, secs: f64) -> Scrape {
        Scrape { at: self.at + secs, ..self.clone() }
    }
}

/// Reads a line of the text format.
fn sample(line: &str) -> (Labels, f64) {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    let (name, rest) = series.split_once('{').unwrap_or((series, ""));
    let mut labels: Labels = [("__name__".to_owned(), name.to_owned())].into();
    let mut parser = Parser { text: rest, scrapes: &[] };
    while !matches!(parser.text, "" | "}") {
        let name = parser.word();
        parser.expect("=");
        labels.insert(name, parser.string());
        parser.takes(",");
    }
    (labels, value.parse().expect("a number"))
}

/// Returns the series that fire a rule: the first scrape begins the window of its rates, the last one is now.
pub fn evaluate(expression: &str, scrapes: &[Scrape]) -> Vec<Labels> {
    let mut parser = Parser { text: expression.trim(), scrapes };
    let value = parser.comparison();
    assert_eq!(parser.text, "", "the whole expression {expression} is read");
    match value {
        Value::Vector(found) => found.into_iter().map(|(labels, _)| labels).collect(),
        Value::Scalar(_) => panic!("{expression} is no condition"),
    }
}

#[derive(Debug)]
enum Value {
    Scalar(f64),
    Vector(Series),
}

struct Parser<'t> {
    text: &'t str,
    scrapes: &'t [Scrape],
}

impl Parser<'_> {
    fn takes(&mut self, token: &str) -> bool {
        let rest = self.text.strip_prefix(token);
        self.text = rest.unwrap_or(self.text).trim_start();
        rest.is_some()
    }

    fn expect(&mut self, token: &str) {
        assert!(self.takes(token), "{token} is expected before {}", self.text);
    }

    fn word(&mut self) -> String {
        let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || "_:.".contains(letter);
        let end = self.text.find(|letter| !is_of_word(letter)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest.trim_start();
        word.to_owned()
    }

    fn string(&mut self) -> String {
        self.expect("\"");
        let end = self.text.find('"').expect("the end of a text");
        let (text, rest) = self.text.split_at(end);
        self.text = rest[1..].trim_start();
        text.to_owned()
    }

    fn comparison(&mut self) -> Value {
        let left = self.sum();
        let operators: [(&str, Comparison); 3] =
            [("==", |a, b| (a - b).abs() < f64::EPSILON), (">", |a, b| a > b), ("<", |a, b| a < b)];
        for (token, holds) in operators {
            if self.takes(token) {
                let right = self.sum();
                let (Value::Vector(left), Value::Scalar(limit)) = (left, right) else {
                    panic!("a rule compares series with a number")
                };
                return Value::Vector(left.into_iter().filter(|(_, value)| holds(*value, limit)).collect());
            }
        }
        left
    }

    fn sum(&mut self) -> Value {
        let mut value = self.product();
        loop {
            value = match () {
                () if self.takes("+") => combined(value, self.product(), |a, b| a + b),
                () if self.takes("-") => combined(value, self.product(), |a, b| a - b),
                () => return value,
            };
        }
    }

    fn product(&mut self) -> Value {
        let mut value = self.factor();
        loop {
            value = match () {
                () if self.takes("*") => combined(value, self.factor(), |a, b| a * b),
                () if self.takes("/") => combined(value, self.factor(), |a, b| a / b),
                () => return value,
            };
        }
    }

    fn factor(&mut self) -> Value {
        if self.takes("(") {
            let value = self.comparison();
            self.expect(")");
            return value;
        }
        if self.text.starts_with('{') {
            return Value::Vector(self.selected("").1);
        }
        let word = self.word();
        if let Ok(number) = word.parse() {
            return Value::Scalar(number);
        }
        match word.as_str() {
            "sum" | "max" | "min" => self.aggregation(&word),
            "rate" => {
                self.expect("(");
                let name = self.word();
                let (first, last) = self.selected(&name);
                self.expect("[");
                self.word();
                self.expect("]");
                self.expect(")");
                self.rates(&first, last)
            }
            "histogram_quantile" => {
                self.expect("(");
                let quantile = self.word().parse().expect("a quantile");
                self.expect(",");
                let Value::Vector(buckets) = self.comparison() else { panic!("buckets are series") };
                self.expect(")");
                quantiles(quantile, buckets)
            }
            "time" => {
                self.expect("(");
                self.expect(")");
                Value::Scalar(self.scrapes.last().expect("a scrape").at)
            }
            name => Value::Vector(self.selected(name).1),
        }
    }

    fn aggregation(&mut self, name: &str) -> Value {
        let mut by = Vec::new();
        if self.takes("by") {
            self.expect("(");
            while !self.takes(")") {
                by.push(self.word());
                self.takes(",");
            }
        }
        self.expect("(");
        let Value::Vector(series) = self.comparison() else { panic!("{name} is of series") };
        self.expect(")");
        let join: fn(f64, f64) -> f64 = match name {
            "sum" => |a, b| a + b,
            "max" => f64::max,
            _ => f64::min,
        };
        let mut groups: BTreeMap<Labels, f64> = BTreeMap::new();
        for (labels, value) in series {
            let key = labels.into_iter().filter(|(name, _)| by.contains(name)).collect();
            groups.entry(key).and_modify(|known| *known = join(*known, value)).or_insert(value);
        }
        Value::Vector(groups.into_iter().collect())
    }

    /// Series by name and labels: in the first scrape, and in the last one.
    fn selected(&mut self, name: &str) -> (Series, Series) {
        let mut wanted: Vec<(String, &str, Vec<String>)> = Vec::new();
        if !name.is_empty() {
            wanted.push(("__name__".to_owned(), "=", vec![name.to_owned()]));
        }
        if self.takes("{") {
            while !self.takes("}") {
                let label = self.word();
                let operator = ["=~", "!~", "!=", "="].into_iter().find(|one| self.takes(one));
                // The patterns of the rules are alternatives.
                let values = self.string().split('|').map(str::to_owned).collect();
                wanted.push((label, operator.expect("an operator"), values));
                self.takes(",");
            }
        }
        let of = |scrape: Option<&Scrape>| {
            let samples = scrape.into_iter().flat_map(|scrape| &scrape.samples);
            let is_wanted = |labels: &Labels| {
                wanted.iter().all(|(label, operator, values)| {
                    let value = labels.get(label).cloned().unwrap_or_default();
                    values.contains(&value) != operator.starts_with('!')
                })
            };
            samples.filter(|(labels, _)| is_wanted(labels)).cloned().collect()
        };
        (of(self.scrapes.first()), of(self.scrapes.last()))
    }

    fn rates(&self, first: &[(Labels, f64)], last: Series) -> Value {
        let [begin, .., end] = self.scrapes else { return Value::Vector(Vec::new()) };
        let first: BTreeMap<&Labels, f64> = first.iter().map(|(labels, value)| (labels, *value)).collect();
        let rate = |(mut labels, value): (Labels, f64)| {
            let before = first.get(&labels)?;
            labels.remove("__name__");
            Some((labels, (value - before) / (end.at - begin.at)))
        };
        Value::Vector(last.into_iter().filter_map(rate).collect())
    }
}

/// Combines values: two vectors where all labels but the name are the same.
fn combined(left: Value, right: Value, join: impl Fn(f64, f64) -> f64) -> Value {
    let unnamed = |mut labels: Labels| {
        labels.remove("__name__");
        labels
    };
    match (left, right) {
        (Value::Scalar(left), Value::Scalar(right)) => Value::Scalar(join(left, right)),
        (Value::Vector(left), Value::Scalar(right)) => Value::Vector(
            left.into_iter().map(|(labels, value)| (unnamed(labels), join(value, right))).collect(),
        ),
        (Value::Scalar(left), Value::Vector(right)) => Value::Vector(
            right.into_iter().map(|(labels, value)| (unnamed(labels), join(left, value))).collect(),
        ),
        (Value::Vector(left), Value::Vector(right)) => {
            let right: BTreeMap<Labels, f64> =
                right.into_iter().map(|(labels, value)| (unnamed(labels), value)).collect();
            let both = left.into_iter().filter_map(|(labels, value)| {
                let labels = unnamed(labels);
                let other = right.get(&labels)?;
                Some((labels, join(value, *other)))
            });
            Value::Vector(both.collect())
        }
    }
}

/// Quantiles of histograms, between the bounds of the bucket by a straight line.
fn quantiles(quantile: f64, buckets: Series) -> Value {
    let mut groups: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for (mut labels, count) in buckets {
        let bound = labels.remove("le").expect("a bucket has a bound");
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a bound") };
        groups.entry(labels).or_default().push((bound, count));
    }
    let of = |(labels, mut buckets): (Labels, Vec<(f64, f64)>)| {
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        let rank = quantile * buckets.last()?.1;
        let at = buckets.iter().position(|(_, count)| *count >= rank)?;
        let (lower, below) = if at == 0 { (0.0, 0.0) } else { buckets[at - 1] };
        let (upper, count) = buckets[at];
        let value = match upper.is_infinite() {
            true => lower,
            false => lower + (upper - lower) * (rank - below) / (count - below),
        };
        Some((labels, value))
    };
    Value::Vector(groups.into_iter().filter_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrape(at: f64, text: &str) -> Scrape {
        Scrape { at, ..Scrape::of_page(Some(text.to_owned())) }
    }

    #[test]
    fn rules_are_evaluated_as_prometheus_does() {
        let first = scrape(
            100.0,
            "c{class=\"2xx\"} 10\nc{class=\"5xx\"} 0\ng{s=\"down\"} 1\ng{s=\"up\"} 4\nmost 10\nopen 9",
        );
        let second = scrape(
            110.0,
            "c{class=\"2xx\"} 30\nc{class=\"5xx\"} 5\ng{s=\"down\"} 1\ng{s=\"up\"} 4\nmost 10\nopen 9",
        );
        let fires = |text: &str| !evaluate(text, &[first.clone(), second.clone()]).is_empty();
        assert!(fires("sum(rate(c{class=\"5xx\"}[5m])) / sum(rate(c[5m])) > 0.19"));
        assert!(!fires("sum(rate(c{class=\"5xx\"}[5m])) / sum(rate(c[5m])) > 0.21"));
        assert!(
            fires("max(g{s=\"down\"}) / sum(max by (s) (g)) > 0.1") && !fires("max(g{s=~\"away|off\"}) > 0")
        );
        assert!(
            fires("max by (instance) (open / most) > 0.8") && fires("time() - max(g{s!=\"down\"}) == 106")
        );
        assert!(fires("max by (instance) (up{job=\"evenkeel\"}) == 1"));
        assert!(!evaluate("max(up) == 0", &[Scrape::of_page(None)]).is_empty());
        let found = evaluate("max by (s) (g) > 0", std::slice::from_ref(&second));
        assert_eq!(found.iter().map(|labels| labels["s"].as_str()).collect::<Vec<_>>(), ["down", "up"]);
    }

    #[test]
    fn quantile_lies_in_the_bucket_that_reaches_it() {
        let page = |one, two, all| {
            format!("h_bucket{{le=\"0.5\"}} {one}\nh_bucket{{le=\"1\"}} {two}\nh_bucket{{le=\"+Inf\"}} {all}")
        };
        let scrapes = [scrape(0.0, &page(0, 0, 0)), scrape(10.0, &page(50, 100, 100))];
        let fires = |text: &str| !evaluate(text, &scrapes).is_empty();
        assert!(fires("histogram_quantile(0.99, sum by (le) (rate(h_bucket[5m]))) > 0.98"));
        assert!(!fires("histogram_quantile(0.99, sum by (le) (rate(h_bucket[5m]))) > 0.995"));
    }
}
