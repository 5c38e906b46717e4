import type { SettingsChoice, SettingsField } from '../../lib/api-types';
import { language } from '../../lib/text.svelte';

/**
 * What the fields of the settings are called, and what they do. That stands in English in the API's document; here it
 * is in German. A field that the document does not have, or one that is missing here, does not compile.
 */
const FIELDS: Record<SettingsField, [en: string, de: string, text: string]> = {
  'profile.display_name': ['What you are called', 'Wie du heißt', 'So reden Agenten und Seiten dich an; leer, wenn du es offenlässt.'],
  'profile.email': ['E-mail address', 'E-Mail-Adresse', 'Leer, oder eine Adresse wie name@example.org.'],
  'profile.avatar_url': ['Address of your picture', 'Adresse deines Bildes', 'Ein hochgeladenes Bild, oder die Adresse (http oder https) eines Bildes anderswo; leer: kein Bild.'],
  'profile.timezone': ['Time zone', 'Zeitzone', 'Ein IANA-Name wie Europe/Berlin. Tage, Budgets und Zeitpläne richten sich danach.'],
  'profile.theme': ['Theme', 'Farben', 'In welchen Farben Seiten erscheinen.'],
  'interface.language': ['Language of the agents', 'Sprache der Agenten', 'Ein Sprachkürzel wie en, de oder pt-BR. Agenten antworten darin. Zeitpläne werden auf Deutsch und Englisch in Worte gefasst, für jede andere Sprache auf Englisch.'],
  'interface.date_format': ['How a day is written', 'Wie ein Tag geschrieben wird', 'Y steht für das Jahr, M für den Monat, D für den Tag.'],
  'interface.show_token_usage': ['Show tokens with replies', 'Tokens an Antworten zeigen', 'Ob bei einer Antwort steht, wie viele Tokens sie gebraucht hat.'],
  'interface.default_agent': ['Default agent', 'Vorgabe-Agent', 'Der Agent, der gilt, wo eine Anfrage keinen nennt.'],
  'agent.default_provider': ['Default provider', 'Vorgabe-Anbieter', 'Wo ein Agent keinen Anbieter nennt; leer: der erste, der eingerichtet ist, das Modell im Daemon zuletzt.'],
  'agent.default_model': ['Default model', 'Vorgabe-Modell', 'Wo ein Agent kein Modell nennt: sein Name beim Anbieter, oder Anbieter/Modell; leer: die Vorgabe des Anbieters.'],
  'agent.temperature': ['Temperature', 'Temperatur', '0 ist am vorhersehbarsten; leer: das Modell entscheidet.'],
  'agent.max_output_tokens': ['Longest reply, in tokens', 'Längste Antwort, in Tokens', 'Begrenzt eine Antwort; leer: das Modell entscheidet.'],
  'agent.max_tool_rounds': ['Rounds of tools in a turn', 'Werkzeugrunden in einem Zug', 'Wie oft ein Zug mit den Ergebnissen von Werkzeugen zum Modell zurückgehen darf.'],
  'agent.request_timeout_seconds': ['Time for one request, in seconds', 'Zeit für eine Anfrage, in Sekunden', 'Begrenzt einen Aufruf eines Modells, vom Anfang bis zum letzten Token.'],
  'agent.instructions': ['Instructions for every agent', 'Anweisungen für alle Agenten', 'Steht im Systemprompt jedes Agenten.'],
  'agent.daily_token_limit': ['Tokens a day', 'Tokens am Tag', 'Der Tag ist der der Zeitzone im Profil; leer: keine Grenze.'],
  'agent.total_token_limit': ['Tokens in all', 'Tokens insgesamt', 'Alle Tokens zusammen; leer: keine Grenze.'],
  'agent.local_model': ['Model inside', 'Modell im Daemon', 'Eine GGUF-Datei im Ordner models des Datenverzeichnisses; leer: die, die dort liegt.'],
  'strategy.planning': ['Planning', 'Planen', 'Ob ein Zug einen Plan macht, bevor er handelt.'],
  'strategy.reflection': ['Reflection', 'Überprüfen', 'Ob ein Zug, der Werkzeuge benutzt hat, seine Antwort noch einmal prüft; das kostet einen weiteren Aufruf.'],
  'strategy.max_parallel_tools': ['Tools at once', 'Werkzeuge gleichzeitig', 'Wie viele Werkzeuge einer Runde zugleich laufen; die anderen warten.'],
  'strategy.compaction_threshold': ['When a conversation is compacted', 'Ab wann eine Unterhaltung verdichtet wird', 'Der Anteil am Kontextfenster des Modells, den eine Unterhaltung füllen darf, bevor aus ihren ältesten Zügen eine Zusammenfassung wird.'],
  'proactive.enabled': ['In use', 'In Gebrauch', 'Ob ein Agent von selbst Züge beginnen darf, aus Vorschlägen und gescheiterten Läufen.'],
  'proactive.quiet_hours': ['Quiet hours', 'Ruhezeit', 'Der Teil des Tages, in dem kein Agent von selbst beginnt und Geräte nur für das geweckt werden, was nicht warten kann. Er darf über Mitternacht gehen.'],
  'proactive.quiet_hours.start': ['From', 'Von', 'HH:MM, die erste ruhige Minute.'],
  'proactive.quiet_hours.end': ['Until', 'Bis', 'HH:MM, die erste Minute, die nicht mehr ruhig ist. Gleich dem Anfang: keine Ruhezeit.'],
  'proactive.quiet_hours.timezone': ['Time zone', 'Zeitzone', 'Ein IANA-Name; leer: die Zeitzone im Profil.'],
  'proactive.max_per_day': ['Turns a day', 'Züge am Tag', 'Wie viele solche Züge ein Agent am Tag beginnt; der Tag ist der der Zeitzone im Profil.'],
  'proactive.delivery': ['Sent to', 'Geht an', 'Wohin ein solcher Zug geschickt wird: <Plattform>:<Kanal> (discord, slack, telegram, whatsapp, teams, google_chat), email:<Adresse>, oder push: für die Geräte, die geweckt werden; leer: nirgendwohin, er steht nur in der Liste.'],
  'proactive.push_approvals': ['An approval waits', 'Eine Freigabe wartet', 'Ob Geräte geweckt werden, wenn eine Freigabe wartet.'],
  'proactive.push_alerts': ['An alert fires', 'Ein Alarm schlägt an', 'Ob Geräte geweckt werden, wenn ein Alarm anschlägt.'],
  'memory.enabled': ['In use', 'In Gebrauch', 'Aus: nichts Neues wird gemerkt, und Agenten erinnern sich an nichts. Was da ist, kann gelesen und gelöscht werden.'],
  'memory.auto_store': ['Remember by itself', 'Von selbst merken', 'Ob von selbst gemerkt wird, was in Unterhaltungen gesagt wird.'],
  'memory.auto_recall': ['Recall before an answer', 'Vor Antworten erinnern', 'Ob Agenten sich erinnern, bevor sie antworten.'],
  'memory.recall_limit': ['Memories before an answer', 'Erinnerungen vor einer Antwort', 'An wie viele Episoden vor einer Antwort höchstens erinnert wird.'],
  'memory.min_importance': ['Least importance', 'Mindestwichtigkeit', 'Was von selbst gemerkt und als weniger wichtig eingeschätzt wird, wird nicht abgelegt; was so abgelegt wurde, bevor dieser Wert stieg, wird vergessen.'],
  'memory.retention_days': ['Kept for, in days', 'Aufgehoben, in Tagen', 'Episoden, die so viele Tage lang weder abgelegt noch erinnert noch geändert wurden, werden vergessen; 0 hebt sie für immer auf.'],
  'memory.entity_extraction': ['How entities are found', 'Wie Namen und Dinge gefunden werden', 'Wie in dem, was gemerkt wird, Namen und Dinge gefunden werden. Das geht mit dem mitgelieferten Einbettungsmodell; ohne dessen Gewichte bleiben das Modell des Agenten oder „aus“.'],
  'memory.consolidate_interval_minutes': ['Consolidated every, in minutes', 'Verdichtet alle, in Minuten', 'Wie oft Unterhaltungen nach Merkenswertem durchgesehen werden; 0: nur auf Verlangen.'],
  'browser.backend': ['Browser', 'Browser', 'Welcher Browser gesteuert wird.'],
  'browser.headless': ['Without a window', 'Ohne Fenster', 'Wird es geändert, startet die nächste Aktion ein neues Chromium.'],
  'browser.auto_snapshot': ['Snapshots by itself', 'Von selbst Schnappschüsse', 'Ob eine Aktion mit dem Schnappschuss danach antwortet.'],
  'browser.snapshot_interval_ms': ['Snapshots every, in milliseconds', 'Schnappschüsse alle, in Millisekunden', 'Wie lange nach einem solchen Schnappschuss Aktionen ohne einen antworten: ein Skript, das schnell handelt, wird nicht aufgehalten.'],
  'browser.stream_fps': ['Pictures a second in the live view', 'Bilder je Sekunde in der Liveansicht', 'Wie viele Bilder je Sekunde gesendet werden.'],
  'browser.stream_quality': ['Quality of the live view', 'Güte der Liveansicht', 'Güte der JPEG-Bilder, die gesendet werden.'],
  'browser.ssrf_allowlist': ['Private addresses that pages may reach', 'Private Adressen, die Seiten erreichen dürfen', 'Hosts, die Seiten erreichen dürfen, obwohl ihre Adresse privat oder lokal ist: host, *.host, eine IP-Adresse oder ein CIDR-Block. Was unter Sicherheit erlaubt ist, gilt auch hier.'],
  'browser.ssrf_blocklist': ['Addresses that no page may reach', 'Adressen, die keine Seite erreichen darf', 'Hosts, die Seiten nie erreichen dürfen; geht allen Listen erlaubter vor, ebenso wie das, was unter Sicherheit verboten ist.'],
  'email.enabled': ['In use', 'In Gebrauch', 'Braucht Server und Absender.'],
  'email.smtp_host': ['Server', 'Server', 'Name oder IP-Adresse des Servers, der Mails annimmt.'],
  'email.smtp_port': ['Port', 'Port', 'Meist 587 mit STARTTLS und 465, wenn die Verbindung von Anfang an verschlüsselt ist.'],
  'email.tls': ['Encryption', 'Verschlüsselung', 'Wie die Verbindung zum Mailserver geschützt ist.'],
  'email.username': ['User name', 'Benutzername', 'Leer: ohne Anmeldung.'],
  'email.password': ['Password', 'Passwort', 'Wird verschlüsselt abgelegt und nie wieder gezeigt. Ändern sich Server oder Port, oder fällt die Verschlüsselung weg, ist es neu einzugeben.'],
  'email.from_address': ['Sender', 'Absender', 'Die Adresse des Absenders, name@example.org.'],
  'security.session_ttl_seconds': ['A sign-in lasts, in seconds', 'Eine Anmeldung gilt, in Sekunden', 'Wie lange eine Anmeldung gilt; für Sitzungen, die von nun an beginnen.'],
  'security.login_max_failures': ['Failed sign-ins until a pause', 'Fehlversuche bis zur Pause', 'Nach so vielen falschen Passwörtern für einen Benutzer von einer Adresse muss jeder weitere Versuch von dort warten: erst eine Sekunde, dann jedes Mal doppelt so lange, höchstens eine Minute.'],
  'security.login_window_seconds': ['Counted within, in seconds', 'Gezählt innerhalb von, in Sekunden', 'Wie lange ein falsches Passwort zählt.'],
  'security.approval_tools': ['Tools that always ask', 'Werkzeuge, die immer fragen', 'Namen von Werkzeugen, die immer fragen, bevor sie laufen; * am Ende steht für jeden Rest.'],
  'security.after_untrusted_text': ['After untrusted text', 'Nach nicht vertrauenswürdigem Text', 'Ob ein Zug mit nicht vertrauenswürdigem Text (Webseiten, Tool-Server, Geräte, unbekannte Absender, Daten von Hooks und Webhooks) erst fragt, bevor er Code ausführt, etwas nach außen sendet oder etwas dauerhaft ändert, auch in autonomen Unterhaltungen. Lesen, Suchen und Schreiben im Arbeitsordner gehen weiter.'],
  'security.allowed_hosts': ['Private addresses that agents may reach', 'Private Adressen, die Agenten erreichen dürfen', 'Hosts, die erreicht werden dürfen, obwohl ihre Adresse privat oder lokal ist: host, *.host, eine IP-Adresse oder ein CIDR-Block.'],
  'security.blocked_hosts': ['Addresses that nobody may reach', 'Adressen, die niemand erreichen darf', 'Hosts, die nie erreicht werden dürfen, wer auch fragt; geht den erlaubten vor.'],
  'security.private_hook_targets': ['Hooks may reach private addresses', 'Hooks dürfen private Adressen erreichen', 'Ob Hooks private Adressen und die eigene Maschine erreichen dürfen, wenn du sie selbst eingetragen hast.'],
  'security.approval_ttl_seconds': ['An approval waits, in seconds', 'Eine Freigabe wartet, in Sekunden', 'Wie lange eine Aktion auf ihre Freigabe wartet.'],
  'sandbox.backend': ['Kind of sandbox', 'Art der Sandbox', 'Worin Code läuft.'],
  'sandbox.network': ['Network', 'Netz', 'Ob Code das Netz erreicht: durch einen Proxy, der ihn an dieselben Regeln bindet wie die Anfragen eines Agenten, und auf keinem anderen Weg.'],
  'sandbox.timeout_seconds': ['Time for one run, in seconds', 'Zeit für einen Lauf, in Sekunden', 'Wie lange ein Lauf höchstens dauern darf.'],
  'sandbox.memory_limit_mb': ['Memory for one run, in MB', 'Speicher für einen Lauf, in MB', 'Für alle Prozesse eines Laufs zusammen.'],
  'sandbox.workspace_limit_mb': ['Size of a workspace, in MB', 'Größe eines Arbeitsordners, in MB', 'Was der Arbeitsordner eines Agenten fassen darf: die Länge seiner Dateien oder ihr Platz auf der Platte, was immer mehr ist. Einer, der schon mehr enthält, kann nur kleiner werden.'],
  'sandbox.workspace_max_files': ['Files in a workspace', 'Dateien in einem Arbeitsordner', 'Wie viele Dateien und Ordner der Arbeitsordner eines Agenten fassen darf.'],
  'sandbox.env_allowlist': ['Environment variables that pass', 'Umgebungsvariablen, die durchkommen', 'Variablen aus der Umgebung des Daemons, die Code bekommt.'],
  'sandbox.writable_paths': ['Other folders that may be written', 'Andere Ordner, die beschrieben werden dürfen', 'Ordner, die Code außer dem Arbeitsordner des Agenten ändern darf; absolute Pfade.'],
  'backup.schedule': ['Automatic backups', 'Automatische Sicherungen', 'Ob jeden Tag eine Sicherung entsteht. Sie enthält keine Geheimnisse, weil niemand da ist, der ein Passwort eingibt; Dateien, die sich nicht lesen lassen, werden ausgelassen und gezählt.'],
  'backup.hour': ['At which hour', 'Zu welcher Stunde', 'Zu welcher Stunde in der Zeitzone des Profils. Die erste entsteht bald nach dem Einschalten.'],
  'backup.keep': ['Daily backups that are kept', 'Tägliche Sicherungen, die bleiben', 'Wie viele tägliche Sicherungen bleiben; ältere werden gelöscht, sobald eine neue da ist.'],
  'backup.limit_mb': ['Room for all backups, in MB', 'Platz für alle Sicherungen, in MB', 'Wie viel alle Sicherungen, die der Daemon aufhebt, zusammen belegen dürfen. Die Grenze der Platte gilt auch.'],
};

/** What can be chosen, in words. */
const CHOICES: Record<SettingsChoice, [en: string, de: string]> = {
  'profile.theme=system': ['as the device has it', 'wie das Gerät'],
  'profile.theme=light': ['light', 'hell'],
  'profile.theme=dark': ['dark', 'dunkel'],
  'interface.date_format=YYYY-MM-DD': ['YYYY-MM-DD', 'YYYY-MM-DD'],
  'interface.date_format=DD.MM.YYYY': ['DD.MM.YYYY', 'DD.MM.YYYY'],
  'interface.date_format=DD/MM/YYYY': ['DD/MM/YYYY', 'DD/MM/YYYY'],
  'interface.date_format=MM/DD/YYYY': ['MM/DD/YYYY', 'MM/DD/YYYY'],
  'strategy.planning=off': ['off', 'aus'],
  'strategy.planning=auto': ['where it looks like several steps', 'wo es nach mehreren Schritten aussieht'],
  'strategy.planning=always': ['always', 'immer'],
  'memory.entity_extraction=rules': ['with the built-in model', 'mit dem eingebauten Modell'],
  'memory.entity_extraction=llm': ['by the model', 'durch das Modell'],
  'memory.entity_extraction=off': ['off', 'aus'],
  'browser.backend=chromium': ['Chromium', 'Chromium'],
  'email.tls=none': ['none', 'keine'],
  'email.tls=starttls': ['STARTTLS', 'STARTTLS'],
  'email.tls=implicit': ['from the first byte (TLS)', 'von Anfang an (TLS)'],
  'security.after_untrusted_text=ask': ['Ask for approval', 'Freigabe verlangen'],
  'security.after_untrusted_text=allow': ['Allow', 'Erlauben'],
  'sandbox.backend=auto': ['the strongest that holds', 'die stärkste, die hält'],
  'sandbox.backend=bubblewrap': ['Bubblewrap', 'Bubblewrap'],
  'sandbox.backend=landlock': ['Landlock', 'Landlock'],
  'sandbox.backend=none': ['none: code is not confined', 'keine: Code ist frei'],
  'backup.schedule=off': ['off', 'aus'],
  'backup.schedule=daily': ['every day', 'jeden Tag'],
};

const isGerman = () => language.current === 'de';
// A page that was built before its types were looked at may know less than its API.
const known = <T>(of: Record<string, T>, key: string): T | undefined => of[key];

/** `path`: the field's names from its category on, with dots. */
export function fieldName(category: string, path: string): string {
  const names = known(FIELDS, `${category}.${path}`);
  return names ? names[isGerman() ? 1 : 0] : path;
}

/** `english`: what the API's document says. */
export function fieldText(category: string, path: string, english: string | undefined, empty: string): string {
  const german = isGerman() && known(FIELDS, `${category}.${path}`)?.[2];
  return german || (english ?? '').replace(/\s*\n\s*/g, ' ').replaceAll('`null`', empty).replaceAll('`', '');
}

export function choiceName(category: string, path: string, value: string): string {
  return known(CHOICES, `${category}.${path}=${value}`)?.[isGerman() ? 1 : 0] ?? value;
}
