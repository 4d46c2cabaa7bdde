//! "What the last hop costs": what all kept answers say together, as one page. Every sentence is computed, and every
//! figure in one has its interval.

mod picture;
mod sentences;

use lasthop_analyse::{
    answers::{Answer, Answers},
    summary::Summary,
};
use lasthop_page::{html, markdown, text::markup as escape};

use self::picture::Drawing;
use crate::{
    answers::overview,
    content,
    document::{Block, Depth, Section, Text, Tone},
};

const TITLE: &str = "What the last hop costs";
const SUBTITLE: &str =
    "How two processes on one machine should talk: what lasthop measured. Every difference has its 95 % interval.";

/// What the page is made from.
#[derive(Debug)]
pub struct Findings<'a> {
    pub answers: &'a Answers,
    /// Experiments that have not been asked.
    pub unasked: Vec<String>,
    /// What became of published measurements, if any was repeated.
    pub studies: Option<Section>,
    /// Runs with overload.
    pub overloads: Vec<Summary>,
    /// What runs of cases against themselves say, by experiment.
    pub selftests: Vec<(String, Text)>,
}

/// A piece of the page.
enum Piece {
    Section(Section),
    Drawing(Drawing),
    /// What only a page with a script has.
    Script(String),
}

impl Findings<'_> {
    /// The pictures that [`Self::markdown`] shows, by the names of their files.
    #[must_use]
    pub fn pictures(&self) -> Vec<(String, Vec<u8>)> {
        let drawings = self.pieces().into_iter().filter_map(|piece| match piece {
            Piece::Drawing(drawing) => Some((drawing.file_name(), drawing.file())),
            Piece::Section(_) | Piece::Script(_) => None,
        });
        drawings.collect()
    }

    /// The picture of every stack, in a line each.
    #[must_use]
    pub fn picture(&self) -> Vec<u8> {
        picture::of_stacks(&self.by_group())
    }

    #[must_use]
    pub fn markdown(&self) -> Vec<u8> {
        let pieces = self.pieces().into_iter().map(|piece| match piece {
            Piece::Section(section) => markdown::sections(&[section]).replace("\n### ", "\n## "),
            Piece::Drawing(drawing) => format!("\n![{}]({})\n", drawing.title, drawing.file_name()),
            Piece::Script(_) => String::new(),
        });
        let body: String = pieces.collect();
        format!("# {TITLE}\n\n{SUBTITLE}\n{body}")
            .replace(crate::units::NBSP, " ")
            .into_bytes()
    }

    #[must_use]
    pub fn html(&self) -> Vec<u8> {
        let pieces = self.pieces().into_iter().map(|piece| match piece {
            Piece::Section(section) => html::section(&section),
            Piece::Drawing(drawing) => drawing.inline(),
            Piece::Script(html) => html,
        });
        let body: String = pieces.collect();
        let head = format!(
            "<style>{}</style>\n<h1 style=\"font-size:1.75rem;color:inherit\">{TITLE}</h1>\n<p class=\"sub\">{}</p>\n",
            crate::forest::STYLE,
            escape(SUBTITLE)
        );
        html::frame(TITLE, &(head + &body))
    }

    /// In the order of the headings that experiments stand under.
    fn by_group(&self) -> Vec<&Answer> {
        let mut answers: Vec<&Answer> = self.answers.answers.iter().collect();
        answers.sort_by(|one, other| (&one.group, &one.experiment).cmp(&(&other.group, &other.experiment)));
        answers
    }

    fn pieces(&self) -> Vec<Piece> {
        let answers = self.by_group();
        let section = |title: &str, blocks: Vec<Block>| {
            Piece::Section(Section {
                title: Some(title.to_owned()),
                depth: Depth::Open,
                blocks,
            })
        };
        let said = sentences::answer(&answers)
            .into_iter()
            .map(|said| Block::Paragraph(said.into()));
        let mut pieces = vec![
            section("The answer", said.collect()),
            section("Every stack and setting", vec![Block::legend(picture::RATIOS)]),
            Piece::Drawing(picture::ratios(&answers)),
            section("What a hop costs", vec![Block::legend(picture::COSTS)]),
            Piece::Drawing(picture::costs(&answers)),
            section("When it stops mattering", vec![Block::legend(picture::GAINS)]),
            Piece::Drawing(picture::gains(&answers)),
            Piece::Script(picture::slider(&answers)),
            Piece::Section(overview(&answers)),
            section("What surprised", sentences::surprises(&answers)),
        ];
        if !self.overloads.is_empty() {
            let blocks = self.overloads.iter().flat_map(overload).collect();
            pieces.push(section("What overload does", blocks));
        }
        pieces.extend(self.studies.clone().map(Piece::Section));
        let mut sure = sentences::sure(&answers);
        for (name, said) in &self.selftests {
            sure.push(Block::Item(
                Text::of(Tone::Strong, format!("{name} against itself: ")).join(said.clone()),
            ));
        }
        if !self.unasked.is_empty() {
            sure.push(Block::Paragraph(
                Text::of(Tone::Strong, "Not asked yet: ").plain(format!("{}.", self.unasked.join(", "))),
            ));
        }
        pieces.push(section("How sure", sure));
        let again = "`script/answers` asks whatever is missing or old and makes this page again. `lasthop run EXPERIMENT` \
                     asks one on your machine, and `lasthop answers` prints these figures.";
        pieces.push(section("All of it again", vec![Block::Paragraph(again.into())]));
        pieces
    }
}

/// What a run with overload answers, under the name of its experiment.
fn overload(summary: &Summary) -> Vec<Block> {
    let name = Block::Paragraph(Text::of(Tone::Strong, summary.experiment.clone()).plain(format!(
        ", each load {}",
        crate::units::plural(u64::from(summary.rounds), "time")
    )));
    let said = content::answer(summary).into_iter().map(Block::Item);
    std::iter::once(name).chain(said).collect()
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::answers::Answers;

    use super::*;
    use crate::{
        answers::{answer_of, choices, compared},
        fixtures,
    };

    fn kept() -> Answers {
        let told = fixtures::all().into_iter().filter_map(|(name, mut summary)| {
            // As if each were an experiment of its own.
            name.clone_into(&mut summary.experiment);
            answer_of(&summary, if name.len() % 2 == 0 { "caches" } else { "raw" }, None)
        });
        Answers::of(told.collect())
    }

    fn of(answers: &Answers) -> Findings<'_> {
        Findings {
            answers,
            unasked: vec!["pigeons".to_owned()],
            studies: None,
            overloads: Vec::new(),
            selftests: Vec::new(),
        }
    }

    #[test]
    fn every_choice_is_in_the_page_and_in_its_picture() {
        let answers = kept();
        assert!(answers.answers.len() > 3);
        let findings = of(&answers);
        let markdown = String::from_utf8(findings.markdown()).unwrap();
        let html = String::from_utf8(findings.html()).unwrap();
        for answer in &answers.answers {
            assert!(markdown.contains(&format!(
                "| {} | {} |",
                lasthop_page::text::markdown(&answer.experiment),
                answer.rounds
            )));
        }
        let all: usize = answers.answers.iter().map(|answer| choices(answer).len()).sum();
        assert_eq!(
            html.matches("class=\"mark\"").count(),
            2 * all,
            "for wide and narrow windows"
        );
        let pictures = findings.pictures();
        assert_eq!(pictures.len(), 3);
        for (name, picture) in pictures
            .into_iter()
            .chain([("findings.svg".to_owned(), findings.picture())])
        {
            let svg = String::from_utf8(picture).unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}: {svg}");
            assert!(name == "findings.svg" || markdown.contains(&name));
        }
        assert!(markdown.contains("pigeons"));
    }

    /// A sentence names only what a verdict carries.
    #[test]
    fn what_is_undecided_is_only_counted() {
        let mut answers = kept();
        let comparisons = answers.answers.iter_mut().flat_map(|answer| &mut answer.settings);
        for against in comparisons
            .flat_map(|setting| &mut setting.cases)
            .filter_map(|case| case.against.as_mut())
        {
            against.verdict = lasthop_analyse::summary::Verdict::Undecided;
            against.cpu = None;
        }
        let references: Vec<&Answer> = answers.answers.iter().collect();
        let said = sentences::answer(&references);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("faster than TCP in 0 of") && !said[0].contains("times"),
            "{said:?}"
        );
        let surprises = sentences::surprises(&references);
        assert!(matches!(&surprises[..], [Block::Paragraph(_)]), "{surprises:?}");
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        let none = Answers::of(Vec::new());
        let markdown = String::from_utf8(of(&none).markdown()).unwrap();
        assert!(markdown.contains("have not been compared with TCP yet"), "{markdown}");
        assert!(String::from_utf8(of(&none).html()).unwrap().contains("pigeons"));
    }

    #[test]
    fn foreign_text_is_no_markup() {
        let mut answers = kept();
        let bad = "</title><script>alert(1)</script>";
        answers.answers[0].experiment = bad.to_owned();
        answers.answers[0].group = bad.to_owned();
        let findings = of(&answers);
        let own = |text: &str| text.matches("<script>alert").count();
        let html = String::from_utf8(findings.html()).unwrap();
        assert!(own(&html) == 0 && html.contains("&lt;script&gt;"));
        assert!(compared(&answers.answers[0]).count() > 0);
        for (name, picture) in findings.pictures() {
            assert_eq!(own(&String::from_utf8(picture).unwrap()), 0, "{name}");
        }
    }
}
