//! Objects that live on the host and are known in the sandbox by an id: packs, and content that is not text.

use monty_types::{MontyClassInstance, MontyClassType, MontyObject, MontyUuid};
use onetool_sdk::Part;

const PACK_CLASS: MontyUuid = MontyUuid::from_u128(0x6f6e_6574_6f6f_6c00_8000_0000_0000_0001);
const CONTENT_CLASS: MontyUuid = MontyUuid::from_u128(0x6f6e_6574_6f6f_6c00_8000_0000_0000_0002);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HostObject {
    Pack(String),
    Part(Part),
}

/// The objects of one run. Ids are indices: code can only name objects of its own run.
#[derive(Debug, Default)]
pub(crate) struct Objects(Vec<HostObject>);

impl Objects {
    /// The object in the sandbox that stands for a pack; the same one each time.
    pub(crate) fn pack(&mut self, name: &str) -> MontyObject {
        let known = self.0.iter().position(|object| matches!(object, HostObject::Pack(pack) if pack == name));
        let index = known.unwrap_or_else(|| self.add(HostObject::Pack(name.to_owned())));
        instance("Pack", PACK_CLASS, index, Vec::new())
    }

    pub(crate) fn part(&mut self, part: Part) -> MontyObject {
        let attributes = match &part {
            Part::Text(text) => vec![("type", "text".to_owned()), ("text", text.clone())],
            Part::Image { media_type, data } => {
                vec![("type", "image".to_owned()), ("mime_type", media_type.clone()), ("size", data.len().to_string())]
            }
            Part::Other(json) => {
                let kind = json.get("type").and_then(serde_json::Value::as_str).unwrap_or("content");
                vec![("type", kind.to_owned())]
            }
        };
        let index = self.add(HostObject::Part(part));
        instance("Content", CONTENT_CLASS, index, attributes)
    }

    pub(crate) fn get(&self, id: MontyUuid) -> Option<&HostObject> {
        let index = usize::try_from(u128::from_be_bytes(*id.as_bytes())).ok()?.checked_sub(1)?;
        self.0.get(index)
    }

    fn add(&mut self, object: HostObject) -> usize {
        self.0.push(object);
        self.0.len() - 1
    }
}

fn instance(class: &str, class_id: MontyUuid, index: usize, attributes: Vec<(&str, String)>) -> MontyObject {
    MontyObject::ClassInstance(Box::new(MontyClassInstance {
        class_type: MontyClassType {
            name: class.to_owned(),
            id: class_id,
            host_defined: true,
            is_dataclass: false,
            attrs: Vec::new().into(),
        },
        instance_id: MontyUuid::from_u128(index as u128 + 1),
        attrs: attributes
            .into_iter()
            .map(|(name, value)| (MontyObject::String(name.to_owned()), MontyObject::String(value)))
            .collect(),
    }))
}
