//! A component without our interfaces, whose exported functions become tools.

// Other targets cannot link exports with such names.
#![cfg(target_family = "wasm")]

use std::fs;

wit_bindgen::generate!({
    inline: r#"
        package guest:plain@0.1.0;

        interface notes {
            save: func(name: string, text: string) -> result<u32, string>;
            load: func(name: string) -> result<string, string>;
        }

        interface loops {
            spin: func();
        }

        world plain {
            export notes;
            export loops;
            export echo: func(text: string) -> string;
            export big: func(bytes: u32) -> list<u8>;
        }"#,
});

struct Plain;

impl exports::guest::plain::notes::Guest for Plain {
    fn save(name: String, text: String) -> Result<u32, String> {
        fs::write(name, &text).map_err(|error| error.to_string())?;
        u32::try_from(text.len()).map_err(|error| error.to_string())
    }

    fn load(name: String) -> Result<String, String> {
        fs::read_to_string(name).map_err(|error| error.to_string())
    }
}

impl exports::guest::plain::loops::Guest for Plain {
    fn spin() {
        loop {
            std::hint::black_box(());
        }
    }
}

impl Guest for Plain {
    fn echo(text: String) -> String {
        text
    }

    fn big(bytes: u32) -> Vec<u8> {
        vec![1; bytes as usize]
    }
}

export!(Plain);
