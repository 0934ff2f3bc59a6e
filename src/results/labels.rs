//! What tells one arm from another: an ordered list of names and values, an object in the text form.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Labels in the order in which they were given; the kind's first label comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Vec<(String, String)>);

impl Labels {
    /// No label yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// These labels and one more; a label given twice keeps its place and takes the new value.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some(label) => label.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
        self
    }

    /// The value of a label.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The names of arms: for each, the values of the labels that differ between the arms, joined by ` / `; the first label
/// is always among them.
pub fn names(arms: &[&Labels]) -> Vec<String> {
    let differs = |name: &str| arms.iter().any(|arm| arm.get(name) != arms[0].get(name));
    arms.iter()
        .map(|arm| {
            let parts: Vec<&str> = arm
                .iter()
                .enumerate()
                .filter(|(position, (name, _))| *position == 0 || differs(name))
                .map(|(_, (_, value))| value)
                .collect();
            parts.join(" / ")
        })
        .collect()
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut labels = Labels::new();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    labels = labels.with(&name, value);
                }
                Ok(labels)
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_joins_the_labels_that_differ_and_always_has_the_first() {
        let at = |policy: &str, place: &str| Labels::new().with("policy", policy).with("place", place);
        let one_place = [at("immediate", "p1"), at("deferred", "p1")];
        assert_eq!(names(&one_place.iter().collect::<Vec<_>>()), ["immediate", "deferred"]);
        let two_places = [at("immediate", "p1"), at("immediate", "p2")];
        assert_eq!(names(&two_places.iter().collect::<Vec<_>>()), ["immediate / p1", "immediate / p2"]);
    }

    #[test]
    fn labels_keep_their_order_in_the_text_form() {
        let text = r#"{"policy":"never","place":"p1","command":"cp"}"#;
        let labels: Labels = serde_json::from_str(text).expect("labels");
        assert_eq!(serde_json::to_string(&labels).expect("text"), text);
    }
}
