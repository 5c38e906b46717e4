//! Words that are evidence about their neighbours. Each word has a set of bits; one lookup per token serves every rule.

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) type Cues = u64;

macro_rules! cues {
    ($($(#[$doc:meta])* $name:ident = $bit:literal: $words:literal;)+) => {
        $($(#[$doc])* pub(crate) const $name: Cues = 1 << $bit;)+
        static WORDS: LazyLock<HashMap<&'static str, Cues>> = LazyLock::new(|| {
            let mut words: HashMap<&'static str, Cues> = HashMap::new();
            $(for word in $words.split_whitespace() { *words.entry(word).or_default() |= $name; })+
            words
        });
    };
}

pub(crate) fn of(folded: &str) -> Cues {
    WORDS.get(folded).copied().unwrap_or_default()
}

cues! {
    /// Words whose full stop does not end a sentence.
    ABBREVIATION = 0: "dr mr mrs ms prof st vs etc eg ie approx no jr sr capt lt gen sen rev dept fig vol jan feb mar apr jun jul aug sep sept oct nov dec";
    /// Kinship terms.
    KINSHIP = 1: "mother mom mum mama mommy father dad papa daddy sister brother sis bro daughter son child kid wife husband spouse partner fiance fiancee
        girlfriend boyfriend aunt uncle cousin niece nephew grandmother grandma granny grandfather grandpa granddaughter grandson grandson parents parent
        twin stepmother stepfather stepson stepdaughter stepbrother stepsister";
    /// Relations between people outside the family.
    ACQUAINTANCE = 2: "friend friends buddy pal mate colleague colleagues coworker boss manager neighbor neighbour roommate flatmate teammate classmate teacher
        mentor therapist doctor dentist coach trainer tutor student client customer ex intern assistant landlord nurse supervisor";
    /// Verbs with a personal subject, in the form that follows a name.
    PERSON_VERB = 3: "said says told tells asked asks called calls thinks thought wrote writes wants wanted likes liked loves loved hates hated lives lived works worked
        moved left joined met sent bought visited married paid came went goes suggested suggests showed invited plays played knows knew feels felt
        agreed agrees replied answered shouted whispered laughed cried smiled texted emailed phoned gave gives took teaches taught studies studied
        mentioned explained recommended recommends believes promised offered wears wore cooked baked sang drove fixed borrowed thanked prefers enjoys speaks
        retired graduated helped helps brought wished decided dreams hopes insisted complained hugged";
    /// Verbs that follow a name as well as a thing.
    COPULA = 4: "is was has had will would can could should might isn't wasn't hasn't hadn't won't doesn't didn't does did";
    /// Software vocabulary.
    TECHNICAL = 5: "code coding coded coder program programs programming programmer programmers compiler compile compiles compiled compiling library libraries framework
        frameworks backend frontend deploy deployed deploying deployment api apis app apps crate crates server servers service services microservice microservices
        developer developers engineer engineers engineering software script scripts repo repository module modules package packages dependency dependencies plugin plugins
        sdk cli database databases query queries schema debug debugging debugger bug bugs bugfix refactor refactored refactoring rewrite rewrote rewritten runtime
        container containers cluster clusters pod pods cloud devops pipeline unit tests benchmark latency endpoint endpoints syntax function functions generic generics
        async thread threads threading goroutine goroutines variable type types typed typing component components hooks hook template templates orm migration
        migrations migrate migrated docs documentation agent agents daemon worker workers queue dataframe csv notebook notebooks install installed upgrade upgraded version versions
        tutorial stack tickets dashboard dashboards metrics logs alerts alerting developer's website webapp web linter ide editor commit commits commited branch merge
        release released ported port compiler's interpreter parser client clients json yaml model models gpu hackathon startup's lambda macros macro traits trait
        ownership lifetimes concurrency solver borrow checker rest http testing tested";
    /// Verbs of working with software.
    TECHNICAL_VERB = 6: "use uses using used learn learning learned learnt write writes writing wrote written code coding coded rewrote rewrite rewritten port ported
        deploy deployed install installed migrate migrated prefer prefers program programming switched switching via built build building adopt adopted know knows";
    /// Verbs of residence and travel.
    MOVEMENT = 7: "live lives lived living moved move moves moving relocate relocated relocating flew fly flying flight flights travel travels traveled travelled traveling travelling
        trip trips drove drive driving visit visits visited visiting based born grew raised stay stayed staying vacation holiday holidays went going back
        returned returning arrived arriving arrive office flat apartment hotel train trains road tour tours commute commuting settled reside resides residing
        honeymoon camped camping hiked landed located capital city town village airport border borders spent spend emigrated immigrated native weekend";
    /// Words that are never a name or its beginning.
    FUNCTION = 8: "the a an i you he she it we they this that these those my your his her its our their me him us them and or but if so because when while where
        what who whom whose why how which there here not no yes is are was were be been being am do does did have has had will would can could should shall may might
        must in on at to from of for with by about as into over under after before since until during between through then than too very just also only even still
        already again ever never always often sometimes maybe perhaps ok okay oh wow hey hi hello thanks thank please sorry good great nice sure well yeah yep nope
        let let's lets i'm i've i'll i'd you're you've it's that's what's there's he's she's we're we've they're don't can't won't isn't all any some many much more most
        each every both other another such same new old first last next one two three four five six seven eight nine ten today tomorrow yesterday tonight
        go see get got make made take took come came give keep put run try use like love look think know want need feel talk tell say said call ask
        happy merry dear congrats congratulations absolutely definitely totally really exactly right cool awesome amazing lol haha btw fyi asap tv ok";
    /// Words that introduce a paragraph and are not speakers.
    HEADING = 9: "note notes todo warning update updates summary agenda subject re fwd fw date time from to cc bcc task tasks action actions item items question questions
        answer answers example examples hint tip tips important info error errors result results status reason context background goal goals plan decision
        decisions problem solution step steps next previous section chapter page part version author title name description user assistant system human ai bot model
        input output prompt response request message messages topic topics conclusion introduction overview details detail idea ideas fix feature bug chore ps edit
        source sources reference references figure table list location place address phone email price cost total pros cons monday tuesday wednesday thursday friday
        saturday sunday morning afternoon evening breakfast lunch dinner ingredients directions instructions requirements features usage warning caution deadline
        homework reminder q a img image photo link url http https file path code warning disclaimer abstract keywords where when what who why how";
    NEGATION = 10: "not never no don't doesn't didn't won't can't cannot isn't wasn't aren't without neither nor stopped quit longer hasn't haven't wouldn't nobody";
    DETERMINER = 11: "the a an this that these those some any no every each another my your his her its our their";
    /// Words that precede a date.
    DATE_PREPOSITION = 12: "in on since until till by from before after during around of for between to early late mid through circa year summer winter spring autumn fall next last this";
    /// Words that do not occur in names but are topics.
    TOPICAL = 13: "run call talk like love work happy cool dear";
}
