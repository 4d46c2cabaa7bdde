//! The part of a PostgreSQL server that is about the link: where it listens. The rest of a run's cluster (no fsync, a role of
//! its own, `trust`) is nothing to copy.

/// Parameters that say where and how the server is reached.
const ABOUT_THE_LINK: [&str; 5] = ["listen_addresses", "port", "unix_socket_directories", "ssl", "ssl_"];

/// Lines for `postgresql.conf`, from the `-c NAME=VALUE` of the server's command.
#[must_use]
pub fn excerpt(command: &[String]) -> String {
    let given = command.windows(2).filter(|pair| pair[0] == "-c").filter_map(|pair| pair[1].split_once('='));
    let about = |name: &str| {
        ABOUT_THE_LINK.iter().any(|known| name == *known || known.ends_with('_') && name.starts_with(known))
    };
    given.filter(|(name, _)| about(name)).map(|(name, value)| format!("{name} = '{value}'\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_listens_and_nothing_else() {
        let words = "postgres -D /run/data -c config_file=/srv/a.conf -c listen_addresses= -c port=5432 -c \
                     unix_socket_directories=/run/postgres -c ssl=on -c ssl_key_file=/k";
        let command: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let wanted = "listen_addresses = ''\nport = '5432'\nunix_socket_directories = '/run/postgres'\nssl = 'on'\n\
                      ssl_key_file = '/k'\n";
        assert_eq!(excerpt(&command), wanted);
    }
}
