import type { SettingsChoice, SettingsField } from '../../lib/api-types';
import { language } from '../../lib/text.svelte';

/**
 * Labels and descriptions of the settings fields. A field that is unknown to the OpenAPI document, or missing here,
 * does not compile.
 */
const FIELDS: Record<SettingsField, [label: string, labelGerman: string, text: string, textGerman: string]> = {
  'profile.display_name': ['Display name', 'Anzeigename', 'How agents address you.', 'So sprechen dich Agenten an.'],
  'profile.email': ['Email address', 'E-Mail-Adresse', 'An address such as name@example.org. Optional.', 'Eine Adresse wie name@example.org. Optional.'],
  'profile.avatar_url': ['Picture URL', 'Bild-URL', 'An uploaded picture, or the http or https address of another one. Leave empty for no picture.', 'Ein hochgeladenes Bild oder die Adresse (http oder https) eines anderen Bildes. Leer lassen für kein Bild.'],
  'profile.timezone': ['Time zone', 'Zeitzone', 'IANA name such as Europe/Berlin. Used for days, budgets and schedules.', 'IANA-Name wie Europe/Berlin. Gilt für Tage, Budgets und Zeitpläne.'],
  'profile.theme': ['Theme', 'Design', 'Colors of this page.', 'Farben der Oberfläche.'],
  'interface.language': ['Agent language', 'Sprache der Agenten', 'Language tag such as en, de or pt-BR. Agents reply in this language. Schedules are described in English or German; for other languages in English.', 'Sprachkürzel wie en, de oder pt-BR. Agenten antworten in dieser Sprache. Zeitpläne werden auf Deutsch und Englisch formuliert, bei jeder anderen Sprache auf Englisch.'],
  'interface.date_format': ['Date format', 'Datumsformat', 'Y is the year, M the month and D the day.', 'Y steht für das Jahr, M für den Monat, D für den Tag.'],
  'interface.show_token_usage': ['Show token usage', 'Tokens anzeigen', 'Shows the number of tokens with each reply.', 'Zeigt zu jeder Antwort die Zahl der Tokens.'],
  'interface.default_agent': ['Default agent', 'Standardagent', 'Used when a request doesn’t name an agent.', 'Wird verwendet, wenn eine Anfrage keinen Agenten nennt.'],
  'agent.default_provider': ['Default provider', 'Standardanbieter', 'Used when an agent has no provider of its own. Leave empty to use the first provider that is set up, or else the built-in model.', 'Wird verwendet, wenn ein Agent keinen Anbieter festlegt. Leer: der erste eingerichtete Anbieter, zuletzt das eingebaute Modell.'],
  'agent.default_model': ['Default model', 'Standardmodell', 'Used when an agent has no model of its own: the provider’s model name, or provider/model. Leave empty to use the provider’s default.', 'Wird verwendet, wenn ein Agent kein Modell festlegt: der Name beim Anbieter oder Anbieter/Modell. Leer: der Standard des Anbieters.'],
  'agent.temperature': ['Temperature', 'Temperatur', '0 gives the most predictable replies. Leave empty to use the model’s default.', '0 liefert die vorhersehbarsten Antworten. Leer: der Standard des Modells.'],
  'agent.max_output_tokens': ['Max. output tokens', 'Max. Ausgabe-Tokens', 'Limits the length of a reply. Leave empty to use the model’s default.', 'Begrenzt die Länge einer Antwort. Leer: der Standard des Modells.'],
  'agent.max_tool_rounds': ['Max. tool rounds per turn', 'Max. Werkzeugrunden pro Durchlauf', 'How often a turn may return to the model with tool results.', 'Wie oft ein Durchlauf mit Werkzeugergebnissen zum Modell zurückkehren darf.'],
  'agent.request_timeout_seconds': ['Request timeout (seconds)', 'Zeitlimit pro Anfrage (Sekunden)', 'Limits a model call, up to its last token.', 'Begrenzt einen Modellaufruf bis zum letzten Token.'],
  'agent.instructions': ['Instructions for all agents', 'Anweisungen für alle Agenten', 'Added to the system prompt of every agent.', 'Werden dem System-Prompt jedes Agenten hinzugefügt.'],
  'agent.daily_token_limit': ['Daily token limit', 'Tägliches Token-Limit', 'Days follow the time zone in your profile. Leave empty for no limit.', 'Der Tag richtet sich nach der Zeitzone im Profil. Leer: kein Limit.'],
  'agent.total_token_limit': ['Total token limit', 'Gesamtes Token-Limit', 'Limits all tokens ever used. Leave empty for no limit.', 'Summe aller Tokens. Leer: kein Limit.'],
  'agent.local_model': ['Built-in model', 'Eingebautes Modell', 'A GGUF file in the models folder of the data directory. Leave empty to use the only file there.', 'Eine GGUF-Datei im Ordner models des Datenverzeichnisses. Leer: die vorhandene Datei.'],
  'strategy.planning': ['Planning', 'Planung', 'Whether a turn creates a plan before it acts.', 'Ob ein Durchlauf einen Plan erstellt, bevor er handelt.'],
  'strategy.reflection': ['Reflection', 'Prüfung', 'Reviews the reply after tools were used. Requires an additional model call.', 'Prüft die Antwort nach dem Einsatz von Werkzeugen noch einmal. Erfordert einen weiteren Modellaufruf.'],
  'strategy.max_parallel_tools': ['Max. parallel tools', 'Max. parallele Werkzeuge', 'How many tools of a round run at the same time; the others wait.', 'Wie viele Werkzeuge einer Runde gleichzeitig laufen; weitere warten.'],
  'strategy.compaction_threshold': ['Compaction threshold', 'Schwelle für Verdichtung', 'Share of the context window, from 0 to 1, at which the oldest turns of a conversation are summarized.', 'Anteil des Kontextfensters, ab dem die ältesten Durchläufe einer Unterhaltung zusammengefasst werden.'],
  'proactive.enabled': ['Enabled', 'Aktiviert', 'Lets agents start turns on their own, from suggestions and failed runs.', 'Ob Agenten nach Vorschlägen und fehlgeschlagenen Läufen selbst Durchläufe beginnen dürfen.'],
  'proactive.quiet_hours': ['Quiet hours', 'Ruhezeit', 'During these hours agents don’t start on their own, and devices show alerts silently unless they are critical. They may extend past midnight.', 'In dieser Zeit werden Agenten nicht selbst aktiv, und Geräte zeigen Alarme ohne Ton an, außer kritische. Sie darf über Mitternacht gehen.'],
  'proactive.quiet_hours.start': ['From', 'Von', 'Start as HH:MM.', 'Beginn als HH:MM.'],
  'proactive.quiet_hours.end': ['To', 'Bis', 'End as HH:MM. Same as the start: no quiet hours.', 'Ende als HH:MM. Gleich dem Beginn: keine Ruhezeit.'],
  'proactive.quiet_hours.timezone': ['Time zone', 'Zeitzone', 'IANA name. Leave empty to use the time zone in your profile.', 'IANA-Name. Leer: die Zeitzone im Profil.'],
  'proactive.max_per_day': ['Max. turns per day', 'Max. Durchläufe pro Tag', 'How many turns an agent may start on its own per day. Days follow the time zone in your profile.', 'Wie viele Durchläufe ein Agent am Tag selbst beginnt. Der Tag richtet sich nach der Zeitzone im Profil.'],
  'proactive.delivery': ['Send output to', 'Ausgabe senden an', '<platform>:<channel> (discord, slack, telegram, whatsapp, teams, google_chat), email:<address>, or push: for your devices. Leave empty to show the output only in the list.', '<Plattform>:<Kanal> (discord, slack, telegram, whatsapp, teams, google_chat), email:<Adresse> oder push: für deine Geräte. Leer: Die Ausgabe erscheint nur in der Liste.'],
  'proactive.push_approvals': ['New approvals', 'Neue Freigaben', 'Sends a push notification when an approval is needed.', 'Sendet eine Push-Mitteilung, wenn eine Freigabe nötig ist.'],
  'proactive.push_alerts': ['Firing alerts', 'Ausgelöste Alarme', 'Sends a push notification when an alert fires.', 'Sendet eine Push-Mitteilung, wenn ein Alarm auslöst.'],
  'memory.enabled': ['Enabled', 'Aktiviert', 'If off, nothing is stored or recalled. Existing episodes can still be viewed and deleted.', 'Aus: Es werden keine neuen Erinnerungen gespeichert oder abgerufen. Vorhandene lassen sich weiterhin lesen und löschen.'],
  'memory.auto_store': ['Store automatically', 'Automatisch speichern', 'Stores episodes from conversations automatically.', 'Speichert automatisch, was in Unterhaltungen gesagt wird.'],
  'memory.auto_recall': ['Recall before replying', 'Vor Antworten abrufen', 'Lets agents recall episodes before they reply.', 'Ob Agenten vor einer Antwort ihr Gedächtnis abrufen.'],
  'memory.recall_limit': ['Max. recalled episodes', 'Max. abgerufene Episoden', 'How many episodes are recalled before a reply.', 'Höchstzahl der Episoden, die vor einer Antwort abgerufen werden.'],
  'memory.min_importance': ['Minimum importance', 'Mindestwichtigkeit', 'Content below this importance, from 0 to 1, is not stored automatically. Raising the value also deletes automatically stored episodes below it.', 'Automatisch erkannte Inhalte unter diesem Wert werden nicht gespeichert. Wird der Wert erhöht, werden bereits automatisch gespeicherte darunter gelöscht.'],
  'memory.retention_days': ['Retention (days)', 'Aufbewahrung (Tage)', 'Episodes that were not stored, recalled or changed for this long are deleted. 0 keeps them forever.', 'Episoden, die so lange weder gespeichert noch abgerufen noch geändert wurden, werden gelöscht. 0 bewahrt sie unbegrenzt auf.'],
  'memory.entity_extraction': ['Entity extraction', 'Erkennung von Entitäten', 'How entities are found in episodes. The built-in model requires the bundled embedding model; without it, choose the agent’s model or Off.', 'Wie Entitäten in Episoden erkannt werden. Das eingebaute Verfahren benötigt das mitgelieferte Embedding-Modell; ohne dessen Gewichte bleiben das Modell des Agenten oder „Aus“.'],
  'memory.consolidate_interval_minutes': ['Consolidation interval (minutes)', 'Intervall der Konsolidierung (Minuten)', 'How often conversations are searched for new information. 0: only manually.', 'Wie oft Unterhaltungen nach neuen Informationen durchsucht werden. 0: nur manuell.'],
  'browser.backend': ['Browser', 'Browser', 'The browser that agents control.', 'Der gesteuerte Browser.'],
  'browser.headless': ['Headless', 'Ohne Fenster', 'Runs Chromium without a window. After a change, the next action starts a new Chromium.', 'Bei einer Änderung startet die nächste Aktion ein neues Chromium.'],
  'browser.auto_snapshot': ['Automatic snapshots', 'Automatische Snapshots', 'Returns a snapshot of the page with each action.', 'Ob Aktionen mit einem Snapshot der Seite antworten.'],
  'browser.snapshot_interval_ms': ['Snapshot interval (milliseconds)', 'Intervall der Snapshots (Millisekunden)', 'Minimum time between two snapshots. Actions in between return none, so that fast scripts are not slowed down.', 'Mindestabstand zwischen zwei Snapshots. Aktionen dazwischen antworten ohne Snapshot, damit schnelle Skripte nicht gebremst werden.'],
  'browser.stream_fps': ['Live view frame rate (fps)', 'Bildrate der Live-Ansicht (Bilder pro Sekunde)', 'How many frames per second are sent at most.', 'Zahl der Bilder, die pro Sekunde gesendet werden.'],
  'browser.stream_quality': ['Live view quality', 'Qualität der Live-Ansicht', 'JPEG quality of the frames.', 'JPEG-Qualität der gesendeten Bilder.'],
  'browser.ssrf_allowlist': ['Allowed private addresses', 'Erlaubte private Adressen', 'Hosts that pages may reach although their address is private or local: host, *.host, an IP address or a CIDR block. The addresses allowed under Security apply here too.', 'Hosts, die Seiten erreichen dürfen, obwohl ihre Adresse privat oder lokal ist: host, *.host, eine IP-Adresse oder ein CIDR-Block. Die unter Sicherheit erlaubten Adressen gelten auch hier.'],
  'browser.ssrf_blocklist': ['Blocked addresses', 'Gesperrte Adressen', 'Hosts that pages may never reach. Like the addresses blocked under Security, these take precedence over all allowed ones.', 'Hosts, die Seiten nie erreichen dürfen. Hat wie die unter Sicherheit gesperrten Adressen Vorrang vor allen erlaubten.'],
  'email.enabled': ['Enabled', 'Aktiviert', 'Requires a server and a sender.', 'Benötigt Server und Absender.'],
  'email.smtp_host': ['Server', 'Server', 'Name or IP address of the SMTP server.', 'Name oder IP-Adresse des SMTP-Servers.'],
  'email.smtp_port': ['Port', 'Port', 'Usually 587 with STARTTLS and 465 with TLS.', 'Meist 587 mit STARTTLS und 465 mit TLS.'],
  'email.tls': ['Encryption', 'Verschlüsselung', 'Encryption of the connection to the mail server.', 'Verschlüsselung der Verbindung zum Mailserver.'],
  'email.username': ['Username', 'Benutzername', 'Leave empty to connect without signing in.', 'Leer: ohne Anmeldung.'],
  'email.password': ['Password', 'Passwort', 'Stored encrypted and never shown again. Enter it again after you change the server or port, or turn off encryption.', 'Wird verschlüsselt gespeichert und nie wieder angezeigt. Nach einer Änderung von Server oder Port, oder wenn die Verschlüsselung entfällt, musst du es neu eingeben.'],
  'email.from_address': ['Sender address', 'Absenderadresse', 'The address of the sender, such as name@example.org.', 'Die Adresse des Absenders, zum Beispiel name@example.org.'],
  'security.session_ttl_seconds': ['Session length (seconds)', 'Sitzungsdauer (Sekunden)', 'How long a sign-in stays valid. Applies to new sessions.', 'Wie lange eine Anmeldung gültig bleibt. Gilt für neue Sitzungen.'],
  'security.login_max_failures': ['Max. failed sign-ins', 'Max. Fehlversuche', 'After this many wrong passwords for one user from one address, each further attempt from there is delayed: first by one second, then by twice as long each time, up to one minute.', 'Nach so vielen falschen Passwörtern für einen Benutzer von einer Adresse wird jeder weitere Versuch von dort verzögert: zuerst eine Sekunde, dann jedes Mal doppelt so lange, höchstens eine Minute.'],
  'security.login_window_seconds': ['Failed sign-in window (seconds)', 'Zeitfenster für Fehlversuche (Sekunden)', 'How long a wrong password counts.', 'Wie lange ein falsches Passwort zählt.'],
  'security.approval_tools': ['Tools that always ask', 'Werkzeuge, die immer fragen', 'Names of tools that always require approval; * at the end matches any suffix.', 'Namen von Werkzeugen, die immer eine Freigabe erfordern; * am Ende steht für beliebige Endungen.'],
  'security.after_untrusted_text': ['After untrusted text', 'Nach nicht vertrauenswürdigem Text', 'Whether turns with untrusted text (web pages, tool servers, devices, unknown senders, data from hooks and webhooks) need approval before they run code, send something out or make lasting changes. Also applies to conversations that run tools without asking. Reading, searching and writing in the workspace are still allowed.', 'Ob Durchläufe mit nicht vertrauenswürdigem Text (Webseiten, Werkzeugserver, Geräte, unbekannte Absender, Daten von Hooks und Webhooks) eine Freigabe benötigen, bevor sie Code ausführen, etwas nach außen senden oder dauerhaft ändern. Gilt auch für Unterhaltungen ohne Rückfragen. Lesen, Suchen und Schreiben im Arbeitsordner bleiben erlaubt.'],
  'security.allowed_hosts': ['Allowed private addresses', 'Erlaubte private Adressen', 'Hosts that agents may reach although their address is private or local: host, *.host, an IP address or a CIDR block.', 'Hosts, die Agenten erreichen dürfen, obwohl ihre Adresse privat oder lokal ist: host, *.host, eine IP-Adresse oder ein CIDR-Block.'],
  'security.blocked_hosts': ['Blocked addresses', 'Gesperrte Adressen', 'Hosts that may never be reached. Takes precedence over the allowed addresses.', 'Hosts, die nie erreicht werden dürfen. Hat Vorrang vor den erlaubten Adressen.'],
  'security.private_hook_targets': ['Allow private hook targets', 'Private Hook-Ziele erlauben', 'Lets hooks reach private addresses and this machine if you entered them yourself.', 'Ob Hooks private Adressen und diesen Rechner erreichen dürfen, wenn du sie selbst eingetragen hast.'],
  'security.approval_ttl_seconds': ['Approval timeout (seconds)', 'Frist für Freigaben (Sekunden)', 'How long an action waits for your approval.', 'Wie lange eine Aktion auf ihre Freigabe wartet.'],
  'sandbox.backend': ['Sandbox type', 'Art der Sandbox', 'How code is isolated.', 'Womit Code isoliert wird.'],
  'sandbox.network': ['Network access', 'Netzwerkzugriff', 'Whether code can reach the network. Access goes through a proxy that applies the same rules as for requests by agents.', 'Ob Code das Netzwerk erreicht. Der Zugriff läuft über einen Proxy, für den dieselben Regeln wie für Anfragen von Agenten gelten.'],
  'sandbox.timeout_seconds': ['Time limit per run (seconds)', 'Zeitlimit pro Lauf (Sekunden)', 'How long a run may take.', 'Höchstdauer eines Laufs.'],
  'sandbox.memory_limit_mb': ['Memory limit per run (MiB)', 'Speicherlimit pro Lauf (MiB)', 'For all processes of a run together.', 'Für alle Prozesse eines Laufs zusammen.'],
  'sandbox.workspace_limit_mb': ['Workspace size limit (MiB)', 'Max. Größe eines Arbeitsordners (MiB)', 'Limits the workspace of an agent, by file size or space on disk, whichever is larger. A workspace that is already larger can only shrink.', 'Höchstgröße des Arbeitsordners eines Agenten, gemessen an der Dateigröße oder der Belegung auf dem Datenträger, je nachdem, was größer ist. Ist ein Arbeitsordner bereits größer, kann er nur noch kleiner werden.'],
  'sandbox.workspace_max_files': ['Max. files per workspace', 'Max. Dateien pro Arbeitsordner', 'Limits the number of files and folders in the workspace of an agent.', 'Höchstzahl der Dateien und Ordner im Arbeitsordner eines Agenten.'],
  'sandbox.env_allowlist': ['Allowed environment variables', 'Erlaubte Umgebungsvariablen', 'Environment variables of agentd that are passed to code.', 'Umgebungsvariablen von agentd, die an Code weitergegeben werden.'],
  'sandbox.writable_paths': ['Additional writable folders', 'Weitere beschreibbare Ordner', 'Folders besides the workspace that code may write to. Absolute paths.', 'Ordner, in die Code außer dem Arbeitsordner schreiben darf. Absolute Pfade.'],
  'backup.schedule': ['Automatic backups', 'Automatische Sicherungen', 'Creates a backup every day, without keys and passwords. Unreadable files are skipped and counted.', 'Erstellt täglich eine Sicherung ohne Schlüssel und Passwörter. Nicht lesbare Dateien werden übersprungen und gezählt.'],
  'backup.hour': ['Hour of day', 'Uhrzeit (Stunde)', 'Hour in the time zone of your profile. The first backup is created soon after you turn this on.', 'Stunde in der Zeitzone des Profils. Die erste Sicherung entsteht kurz nach dem Einschalten.'],
  'backup.keep': ['Backups to keep', 'Anzahl der Sicherungen', 'How many daily backups are kept. Older ones are deleted after each new backup.', 'Wie viele tägliche Sicherungen aufbewahrt werden. Ältere werden nach jeder neuen Sicherung gelöscht.'],
  'backup.limit_mb': ['Size limit for all backups (MiB)', 'Max. Größe aller Sicherungen (MiB)', 'Limits all backups together. The free space on the disk applies as well.', 'Höchstgröße aller Sicherungen zusammen. Zusätzlich gilt der freie Platz auf dem Datenträger.'],
};

/** Labels of the options. */
const CHOICES: Record<SettingsChoice, [en: string, de: string]> = {
  'profile.theme=system': ['System', 'System'],
  'profile.theme=light': ['Light', 'Hell'],
  'profile.theme=dark': ['Dark', 'Dunkel'],
  'interface.date_format=YYYY-MM-DD': ['YYYY-MM-DD', 'YYYY-MM-DD'],
  'interface.date_format=DD.MM.YYYY': ['DD.MM.YYYY', 'DD.MM.YYYY'],
  'interface.date_format=DD/MM/YYYY': ['DD/MM/YYYY', 'DD/MM/YYYY'],
  'interface.date_format=MM/DD/YYYY': ['MM/DD/YYYY', 'MM/DD/YYYY'],
  'strategy.planning=off': ['Off', 'Aus'],
  'strategy.planning=auto': ['Automatic, for multi-step tasks', 'Automatisch, bei mehreren Schritten'],
  'strategy.planning=always': ['Always', 'Immer'],
  'memory.entity_extraction=rules': ['Built-in model', 'Eingebautes Modell'],
  'memory.entity_extraction=llm': ['Agent’s model', 'Modell des Agenten'],
  'memory.entity_extraction=off': ['Off', 'Aus'],
  'browser.backend=chromium': ['Chromium', 'Chromium'],
  'email.tls=none': ['None', 'Keine'],
  'email.tls=starttls': ['STARTTLS', 'STARTTLS'],
  'email.tls=implicit': ['TLS', 'TLS'],
  'security.after_untrusted_text=ask': ['Ask for approval', 'Freigabe verlangen'],
  'security.after_untrusted_text=allow': ['Allow', 'Erlauben'],
  'sandbox.backend=auto': ['Automatic (strongest available)', 'Automatisch (stärkste verfügbare)'],
  'sandbox.backend=bubblewrap': ['Bubblewrap', 'Bubblewrap'],
  'sandbox.backend=landlock': ['Landlock', 'Landlock'],
  'sandbox.backend=none': ['None (code is not isolated)', 'Keine (Code wird nicht isoliert)'],
  'backup.schedule=off': ['Off', 'Aus'],
  'backup.schedule=daily': ['Daily', 'Täglich'],
};

const isGerman = () => language.current === 'de';
// The page may be older than the API's list of fields.
const known = <T>(of: Record<string, T>, key: string): T | undefined => of[key];

/** Label of a field; `path` is its dotted path within the category. */
export function fieldName(category: string, path: string): string {
  const names = known(FIELDS, `${category}.${path}`);
  return names ? names[isGerman() ? 1 : 0] : path;
}

/** Description of a field. */
export function fieldText(category: string, path: string): string {
  return known(FIELDS, `${category}.${path}`)?.[isGerman() ? 3 : 2] ?? '';
}

export function choiceName(category: string, path: string, value: string): string {
  return known(CHOICES, `${category}.${path}=${value}`)?.[isGerman() ? 1 : 0] ?? value;
}
