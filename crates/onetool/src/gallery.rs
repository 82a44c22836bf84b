//! The packs that are included in the program, as text: the files of `packs/`.

/// One pack of the gallery.
#[derive(Debug)]
pub struct GalleryPack {
    pub name: &'static str,
    /// The tool file.
    pub source: &'static str,
    /// Purpose, setup and examples.
    pub readme: &'static str,
}

macro_rules! pack {
    ($name:literal) => {
        GalleryPack {
            name: $name,
            source: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packs/", $name, "/", $name, "_tools.py")),
            readme: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packs/", $name, "/README.md")),
        }
    };
}

/// All packs, by name.
pub const GALLERY: &[GalleryPack] = &[
    pack!("code"),
    pack!("convert"),
    pack!("db"),
    pack!("diagram"),
    pack!("excel"),
    pack!("git"),
    pack!("pdf"),
    pack!("plot"),
];

impl GalleryPack {
    pub fn find(name: &str) -> anyhow::Result<&'static Self> {
        if let Some(pack) = GALLERY.iter().find(|pack| pack.name == name) {
            return Ok(pack);
        }
        let names: Vec<&str> = GALLERY.iter().map(|pack| pack.name).collect();
        match onetool_sdk::nearest(name, names.iter().copied()) {
            Some(near) => anyhow::bail!("the gallery has no pack '{name}'; did you mean '{near}'?"),
            None => anyhow::bail!("the gallery has no pack '{name}'\nhint: it has {}", names.join(", ")),
        }
    }

    /// The first sentence of the file's docstring.
    pub fn summary(&self) -> &'static str {
        let text = self.source.split("\"\"\"").nth(1).unwrap_or_default();
        text.lines().next().unwrap_or_default().trim()
    }

    /// The packages that its header requires.
    pub fn dependencies(&self) -> Vec<&'static str> {
        let header = self.source.split("# ///").nth(1).unwrap_or_default();
        let Some((_, list)) = header.split_once("# dependencies = [") else { return Vec::new() };
        // A name may contain brackets (`psycopg[binary]`): the list ends at a bracket outside quotes.
        let mut found = Vec::new();
        for (position, part) in list.split('"').enumerate() {
            if position % 2 == 1 {
                found.push(part);
            } else if part.contains(']') {
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pack_of_the_folder_is_in_the_gallery_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packs");
        let mut folders: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| !name.starts_with(['_', '.']))
            .collect();
        folders.sort();
        assert_eq!(folders, GALLERY.iter().map(|pack| pack.name).collect::<Vec<_>>());
    }

    #[test]
    fn summaries_and_dependencies_are_read() {
        let db = GalleryPack::find("db").unwrap();
        assert!(db.summary().starts_with("Query SQLite, PostgreSQL and MySQL"), "{}", db.summary());
        assert_eq!(db.dependencies(), ["psycopg[binary]>=3.2", "pymysql>=1.1"]);
        assert_eq!(GalleryPack::find("git").unwrap().dependencies(), Vec::<&str>::new());
        assert!(GalleryPack::find("convert").unwrap().dependencies().len() > 4);
        for pack in GALLERY {
            assert!(pack.summary().len() > 10 && pack.readme.starts_with(&format!("# {}", pack.name)), "{}", pack.name);
        }
        assert!(GalleryPack::find("exel").unwrap_err().to_string().contains("did you mean 'excel'"));
    }
}
