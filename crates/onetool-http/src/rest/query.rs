//! Query strings: each is a struct that is read and described (`IntoParams`) from one declaration, strictly. A parameter
//! that no struct declares is an error, and only a list may be given more than once.

use std::fmt;
use std::str::FromStr;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::ApiError;

pub const DEFAULT_PAGE: usize = 50;
pub const LARGEST_PAGE: usize = 256;
/// Maximum number of values in a list.
const LIST_ITEMS: usize = 256;

/// Reads a query whose parameters are the fields of `T`.
pub(super) fn parse<T: DeserializeOwned>(query: Option<&str>) -> Result<T, ApiError> {
    let mut pairs = Pairs::read(query)?;
    let parsed = pairs.take()?;
    pairs.end().map(|()| parsed)
}

/// Reads a query whose parameters are the fields of `A` and those of `B`.
pub(super) fn parse_both<A: DeserializeOwned, B: DeserializeOwned>(query: Option<&str>) -> Result<(A, B), ApiError> {
    let mut pairs = Pairs::read(query)?;
    let parsed = (pairs.take()?, pairs.take()?);
    pairs.end().map(|()| parsed)
}

/// Reads a field of a type that is parsed from text.
pub(super) fn parsed<'de, D, T>(value: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    String::deserialize(value)?.parse().map_err(|error| de::Error::custom(format!(": {error}")))
}

/// How many items are wanted: from 1, and what is above `MOST` counts as `MOST`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count<const DEFAULT: usize, const MOST: usize>(pub(super) usize);

/// The size of a page.
pub(super) type PageSize = Count<DEFAULT_PAGE, LARGEST_PAGE>;

impl<const DEFAULT: usize, const MOST: usize> Default for Count<DEFAULT, MOST> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<'de, const DEFAULT: usize, const MOST: usize> Deserialize<'de> for Count<DEFAULT, MOST> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        match String::deserialize(value)?.parse::<u32>() {
            Ok(count @ 1..) => Ok(Self(usize::try_from(count).unwrap_or(MOST).min(MOST))),
            _ => Err(de::Error::custom(" is a whole number from 1")),
        }
    }
}

/// The parameters that have not been read yet.
struct Pairs(Vec<(String, String)>);

impl Pairs {
    fn read(query: Option<&str>) -> Result<Self, ApiError> {
        let query = query.unwrap_or_default();
        let uri: axum::http::Uri =
            format!("/?{query}").parse().map_err(|_| ApiError::invalid("the query is not valid"))?;
        axum::extract::Query::try_from_uri(&uri)
            .map(|query| Self(query.0))
            .map_err(|error| ApiError::invalid(format!("the query is not valid: {error}")))
    }

    fn take<T: DeserializeOwned>(&mut self) -> Result<T, ApiError> {
        T::deserialize(self).map_err(|error| ApiError::invalid(error.to_string()))
    }

    fn end(self) -> Result<(), ApiError> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(ApiError::invalid(format!("there is no parameter '{name}'"))),
        }
    }
}

impl<'de> Deserializer<'de> for &mut Pairs {
    type Error = QueryError;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        let mut given: Vec<Values> = Vec::new();
        for name in fields {
            let values: Vec<String> =
                self.0.extract_if(.., |(other, _)| other == name).map(|(_, value)| value).collect();
            if !values.is_empty() {
                given.push(Values { name, values });
            }
        }
        visitor.visit_map(Fields { given: given.into_iter(), next: None })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, QueryError> {
        Err(QueryError::Whole("a query is read into a struct".to_owned()))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Fields {
    given: std::vec::IntoIter<Values>,
    next: Option<Values>,
}

impl<'de> MapAccess<'de> for Fields {
    type Error = QueryError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, QueryError> {
        self.next = self.given.next();
        let key = |values: &Values| -> StrDeserializer<'static, QueryError> { values.name.into_deserializer() };
        self.next.as_ref().map(|values| seed.deserialize(key(values))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, QueryError> {
        let Some(values) = self.next.take() else {
            return Err(QueryError::Whole("a value is read before its key".to_owned()));
        };
        let name = values.name;
        seed.deserialize(values).map_err(|error| match error {
            QueryError::Value(text) => QueryError::Whole(format!("{name}{text}")),
            whole @ QueryError::Whole(_) => whole,
        })
    }
}

/// What is given for one parameter.
struct Values {
    name: &'static str,
    values: Vec<String>,
}

impl Values {
    fn single(mut self) -> Result<String, QueryError> {
        match (self.values.pop(), self.values.is_empty()) {
            (Some(value), true) => Ok(value),
            _ => Err(QueryError::Whole(format!("the parameter {} is given more than once", self.name))),
        }
    }
}

impl<'de> Deserializer<'de> for Values {
    type Error = QueryError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_string(self.single()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        match self.single()?.as_str() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(QueryError::Value(" is true or false".to_owned())),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        match self.single()?.parse() {
            Ok(number) => visitor.visit_u32(number),
            Err(_) => Err(QueryError::Value(" is a whole number from 0".to_owned())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_some(self)
    }

    /// Values are separated by commas, or the parameter is repeated.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        let items = self.values.iter().flat_map(|value| value.split(',')).map(str::trim);
        let items: Vec<&str> = items.filter(|item| !item.is_empty()).collect();
        if items.len() > LIST_ITEMS {
            return Err(QueryError::Value(format!(" holds at most {LIST_ITEMS} values")));
        }
        visitor.visit_seq(de::value::SeqDeserializer::new(items.into_iter()))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Why a query cannot be read.
#[derive(Debug)]
enum QueryError {
    /// Follows the name of the parameter.
    Value(String),
    Whole(String),
}

impl fmt::Display for QueryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Value(text) | Self::Whole(text)) = self;
        formatter.write_str(text)
    }
}

impl std::error::Error for QueryError {}

impl de::Error for QueryError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::Value(text.to_string())
    }

    fn missing_field(name: &'static str) -> Self {
        Self::Whole(format!("the parameter {name} is missing"))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Filter {
        #[serde(default)]
        tags: Vec<String>,
        #[serde(default, rename = "isOn")]
        is_on: bool,
        text: Option<String>,
        from: Option<u32>,
        #[serde(default = "unspecified", deserialize_with = "parsed")]
        at: std::net::Ipv4Addr,
    }

    #[derive(Debug, Deserialize)]
    struct Page {
        #[serde(default)]
        size: PageSize,
        q: String,
    }

    fn unspecified() -> std::net::Ipv4Addr {
        std::net::Ipv4Addr::UNSPECIFIED
    }

    fn error<T: DeserializeOwned + fmt::Debug>(query: &str) -> String {
        parse::<T>(Some(query)).unwrap_err().message().to_owned()
    }

    #[test]
    fn every_field_is_read() {
        let filter: Filter = parse(Some("tags=a,%20b&isOn=true&tags=c,,&text=x+y&from=7&at=127.0.0.1")).unwrap();
        let tags = ["a", "b", "c"].map(str::to_owned).to_vec();
        let at = std::net::Ipv4Addr::LOCALHOST;
        assert_eq!(filter, Filter { tags, is_on: true, text: Some("x y".to_owned()), from: Some(7), at });
        let nothing = Filter { tags: vec![], is_on: false, text: None, from: None, at: unspecified() };
        assert_eq!(parse::<Filter>(None).unwrap(), nothing);
    }

    #[test]
    fn two_structs_share_a_query() {
        let (filter, page): (Filter, Page) = parse_both(Some("q=x&size=1000&text=a")).unwrap();
        assert_eq!((filter.text.as_deref(), page.size.0, page.q.as_str()), (Some("a"), 256, "x"));
        assert_eq!(parse::<Page>(Some("q=x")).unwrap().size.0, 50);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        assert_eq!(error::<Filter>("isOn=yes"), "isOn is true or false");
        assert_eq!(error::<Filter>("isOn=true&isOn=true"), "the parameter isOn is given more than once");
        assert_eq!(error::<Filter>("text=a&text=b"), "the parameter text is given more than once");
        assert_eq!(error::<Filter>("from=-1"), "from is a whole number from 0");
        assert_eq!(error::<Filter>("nope=1"), "there is no parameter 'nope'");
        assert_eq!(error::<Filter>("at=x"), "at: invalid IPv4 address syntax");
        assert_eq!(error::<Filter>(&format!("tags={}", "a,".repeat(257))), "tags holds at most 256 values");
        assert_eq!(error::<Page>(""), "the parameter q is missing");
        for size in ["0", "-1", "x", "1.5"] {
            assert_eq!(error::<Page>(&format!("q=a&size={size}")), "size is a whole number from 1");
        }
    }
}
