import type { SettingsChoice, SettingsField } from '../../lib/api-types';
import { language } from '../../lib/text.svelte';

/**
 * Labels and descriptions of the settings fields. A field that is unknown to the OpenAPI document, or missing here,
 * does not compile.
 */
const FIELDS: Record<SettingsField, [label: string, labelGerman: string, text: string, textGerman: string]> = {
  'profile.display_name': ['Display name', 'Anzeigename', 'How agents address you.', 'So sprechen dich Agenten an.'],
  'profile.email': ['Email address', 'E-Mail-Adresse', 'An address such as name@example.org. Optional.', 'Eine Adresse wie name@example.org. Optional.'],
  'profile.avatar_url': ['Picture URL', 'Bild-URL', 'An uploaded picture, or the URL (http or https) of another picture. Leave empty for no picture.', 'Ein hochgeladenes Bild oder die URL (http oder https) eines anderen Bildes. Leer lassen, um kein Bild zu verwenden.'],
  'profile.timezone': ['Time zone', 'Zeitzone', 'IANA name such as Europe/Berlin. Used for daily limits, budgets and schedules.', 'IANA-Name wie Europe/Berlin. Gilt für Tageslimits, Budgets und Zeitpläne.'],
  'profile.theme': ['Theme', 'Design', 'Colors of the web interface.', 'Farben der Weboberfläche.'],
  'interface.language': ['Agent language', 'Sprache der Agenten', 'Language tag such as en, de or pt-BR. Agents reply in this language. Schedules are described in English or German; for other languages in English.', 'Sprachkürzel wie en, de oder pt-BR. Agenten antworten in dieser Sprache. Zeitpläne werden auf Deutsch oder Englisch beschrieben, bei anderen Sprachen auf Englisch.'],
  'interface.date_format': ['Date format', 'Datumsformat', 'Y is the year, M the month and D the day.', 'Y steht für das Jahr, M für den Monat, D für den Tag.'],
  'interface.show_token_usage': ['Show token usage', 'Tokens anzeigen', 'Shows the number of tokens with each reply.', 'Zeigt zu jeder Antwort die Zahl der Tokens.'],
  'interface.default_agent': ['Default agent', 'Standardagent', 'Used when a request doesn’t name an agent.', 'Wird verwendet, wenn eine Anfrage keinen Agenten nennt.'],
  'agent.default_provider': ['Default provider', 'Standardanbieter', 'Used when an agent has no provider of its own. Leave empty to use the first provider that is set up, or else the built-in model.', 'Wird verwendet, wenn ein Agent keinen eigenen Anbieter hat. Leer lassen, um den ersten eingerichteten Anbieter oder, wenn keiner eingerichtet ist, das eingebaute Modell zu verwenden.'],
  'agent.default_model': ['Default model', 'Standardmodell', 'Used when an agent has no model of its own: the provider’s model name, or provider/model. Leave empty to use the provider’s default.', 'Wird verwendet, wenn ein Agent kein eigenes Modell hat: der Modellname beim Anbieter oder Anbieter/Modell. Leer lassen, um das Standardmodell des Anbieters zu verwenden.'],
  'agent.temperature': ['Temperature', 'Temperatur', '0 gives the most predictable replies. Leave empty to use the model’s default.', '0 liefert die vorhersehbarsten Antworten. Leer lassen, um den Standard des Modells zu verwenden.'],
  'agent.max_output_tokens': ['Max. output tokens', 'Max. Ausgabe-Tokens', 'Limits the length of a reply. Leave empty to use the model’s default.', 'Begrenzt die Länge einer Antwort. Leer lassen, um den Standard des Modells zu verwenden.'],
  'agent.max_tool_rounds': ['Max. tool rounds per turn', 'Max. Werkzeugrunden pro Durchlauf', 'How often a turn may return to the model with tool results.', 'Wie oft ein Durchlauf mit Werkzeugergebnissen zum Modell zurückkehren darf.'],
  'agent.request_timeout_seconds': ['Request timeout (seconds)', 'Zeitlimit pro Anfrage (Sekunden)', 'Maximum duration of a model call, until its last token.', 'Höchstdauer eines Modellaufrufs bis zum letzten Token.'],
  'agent.instructions': ['Instructions for all agents', 'Anweisungen für alle Agenten', 'Added to the system prompt of every agent.', 'Werden dem System-Prompt jedes Agenten hinzugefügt.'],
  'agent.daily_token_limit': ['Daily token limit', 'Tägliches Token-Limit', 'Resets at midnight in the time zone of your profile. Leave empty for no limit.', 'Wird um Mitternacht in der Zeitzone deines Profils zurückgesetzt. Leer lassen, wenn kein Limit gelten soll.'],
  'agent.total_token_limit': ['Total token limit', 'Gesamtes Token-Limit', 'Limits total token usage, regardless of the day. Leave empty for no limit.', 'Begrenzt den gesamten Token-Verbrauch, unabhängig vom Tag. Leer lassen, wenn kein Limit gelten soll.'],
  'agent.local_model': ['Built-in model', 'Eingebautes Modell', 'A GGUF file in the models folder of the data directory. Leave empty to use the only file there.', 'Eine GGUF-Datei im Ordner models des Datenverzeichnisses. Leer lassen, um die einzige Datei dort zu verwenden.'],
  'strategy.planning': ['Planning', 'Planung', 'When a turn creates a plan before it acts.', 'Wann ein Durchlauf einen Plan erstellt, bevor er handelt.'],
  'strategy.reflection': ['Reflection', 'Prüfung', 'Reviews the reply after tools were used. Requires an additional model call.', 'Prüft die Antwort nach dem Einsatz von Werkzeugen noch einmal. Erfordert einen weiteren Modellaufruf.'],
  'strategy.max_parallel_tools': ['Max. parallel tool calls', 'Max. parallele Werkzeugaufrufe', 'How many tool calls of a round run concurrently; the others wait.', 'Wie viele Werkzeugaufrufe einer Runde gleichzeitig laufen; weitere warten.'],
  'strategy.compaction_threshold': ['Compaction threshold', 'Schwelle für Verdichtung', 'Share of the context window, from 0 to 1, at which the oldest turns of a conversation are summarized.', 'Anteil des Kontextfensters, von 0 bis 1, ab dem die ältesten Durchläufe einer Unterhaltung zusammengefasst werden.'],
  'proactive.enabled': ['Enabled', 'Aktiviert', 'Lets agents start turns on their own, based on suggestions and failed runs.', 'Erlaubt Agenten, nach Vorschlägen und fehlgeschlagenen Läufen selbst Durchläufe zu starten.'],
  'proactive.quiet_hours': ['Quiet hours', 'Ruhezeit', 'During these hours agents don’t start on their own, and devices show alerts silently unless they are critical. They may extend past midnight.', 'In dieser Zeit werden Agenten nicht selbst aktiv, und Geräte zeigen Alarme ohne Ton an, außer kritische. Sie darf über Mitternacht gehen.'],
  'proactive.quiet_hours.start': ['From', 'Von', 'Start as HH:MM.', 'Beginn als HH:MM.'],
  'proactive.quiet_hours.end': ['To', 'Bis', 'End as HH:MM. Use the start time for no quiet hours.', 'Ende als HH:MM. Ist es gleich dem Beginn, gibt es keine Ruhezeit.'],
  'proactive.quiet_hours.timezone': ['Time zone', 'Zeitzone', 'IANA name. Leave empty to use the time zone in your profile.', 'IANA-Name. Leer lassen, um die Zeitzone deines Profils zu verwenden.'],
  'proactive.max_per_day': ['Max. turns per day', 'Max. Durchläufe pro Tag', 'How many turns an agent may start on its own per day, in the time zone of your profile.', 'Wie viele Durchläufe ein Agent pro Tag selbst starten darf, in der Zeitzone deines Profils.'],
  'proactive.delivery': ['Send output to', 'Ausgabe senden an', '<platform>:<channel> (discord, slack, telegram, whatsapp, teams, google_chat), email:<address>, or push: for your devices. Leave empty to show the output only in the list.', '<Plattform>:<Kanal> (discord, slack, telegram, whatsapp, teams, google_chat), email:<Adresse> oder push: für deine Geräte. Leer lassen, um die Ausgabe nur in der Liste anzuzeigen.'],
  'proactive.push_approvals': ['New approvals', 'Neue Freigaben', 'Sends a push notification when an approval is needed.', 'Sendet eine Push-Benachrichtigung, wenn eine Freigabe erforderlich ist.'],
  'proactive.push_alerts': ['Firing alerts', 'Ausgelöste Alarme', 'Sends a push notification when an alert fires.', 'Sendet eine Push-Benachrichtigung, wenn ein Alarm auslöst.'],
  'memory.enabled': ['Enabled', 'Aktiviert', 'If off, nothing is stored or recalled. Existing episodes can still be viewed and deleted.', 'Wenn deaktiviert, werden keine Episoden gespeichert oder abgerufen. Vorhandene lassen sich weiterhin anzeigen und löschen.'],
  'memory.auto_store': ['Store automatically', 'Automatisch speichern', 'Stores episodes from conversations automatically.', 'Speichert automatisch Episoden aus Unterhaltungen.'],
  'memory.auto_recall': ['Recall before replying', 'Vor Antworten abrufen', 'Lets agents recall episodes before they reply.', 'Lässt Agenten vor einer Antwort Episoden abrufen.'],
  'memory.recall_limit': ['Max. recalled episodes', 'Max. abgerufene Episoden', 'How many episodes are recalled before a reply.', 'Höchstzahl der Episoden, die vor einer Antwort abgerufen werden.'],
  'memory.min_importance': ['Minimum importance', 'Mindestwichtigkeit', 'Content below this importance, from 0 to 1, is not stored automatically. Raising the value also deletes automatically stored episodes below it.', 'Inhalte unter dieser Wichtigkeit, von 0 bis 1, werden nicht automatisch gespeichert. Wird der Wert erhöht, werden auch bereits automatisch gespeicherte Episoden darunter gelöscht.'],
  'memory.retention_days': ['Retention (days)', 'Aufbewahrung (Tage)', 'Episodes that were not stored, recalled or changed for this long are deleted. 0 keeps them forever.', 'Episoden, die so lange weder gespeichert noch abgerufen noch geändert wurden, werden gelöscht. 0 bewahrt sie unbegrenzt auf.'],
  'memory.entity_extraction': ['Entity extraction', 'Erkennung von Entitäten', 'How entities are found in episodes. The built-in model requires the bundled embedding model; without it, choose “Agent’s model” or “Off”.', 'Wie Entitäten in Episoden erkannt werden. Das eingebaute Modell benötigt das mitgelieferte Embedding-Modell; wähle ohne dieses das Modell des Agenten oder „Aus“.'],
  'memory.consolidate_interval_minutes': ['Consolidation interval (minutes)', 'Intervall der Konsolidierung (Minuten)', 'How often conversations are searched for new information. 0: only manually.', 'Wie oft Unterhaltungen nach neuen Informationen durchsucht werden. 0: nur manuell.'],
  'browser.backend': ['Browser', 'Browser', 'The browser that agents control.', 'Der Browser, den Agenten steuern.'],
  'browser.headless': ['Headless', 'Ohne Fenster', 'Runs Chromium without a window. After a change, the next action starts a new Chromium.', 'Startet Chromium ohne Fenster. Nach einer Änderung startet die nächste Aktion ein neues Chromium.'],
  'browser.auto_snapshot': ['Automatic snapshots', 'Automatische Snapshots', 'Returns a snapshot of the page with each action.', 'Gibt mit jeder Aktion einen Snapshot der Seite zurück.'],
  'browser.snapshot_interval_ms': ['Snapshot interval (milliseconds)', 'Intervall der Snapshots (Millisekunden)', 'Minimum time between two snapshots. Actions in between return none, so that fast scripts are not slowed down.', 'Mindestabstand zwischen zwei Snapshots. Aktionen dazwischen geben keinen zurück, damit schnelle Skripte nicht gebremst werden.'],
  'browser.stream_fps': ['Live view frame rate (fps)', 'Bildrate der Live-Ansicht (Bilder pro Sekunde)', 'Maximum number of frames sent per second.', 'Höchstzahl der Bilder, die pro Sekunde gesendet werden.'],
  'browser.stream_quality': ['Live view quality', 'Qualität der Live-Ansicht', 'JPEG quality of the frames.', 'JPEG-Qualität der gesendeten Bilder.'],
  'browser.ssrf_allowlist': ['Allowed private addresses', 'Erlaubte private Adressen', 'Hosts that pages may reach although their address is private or local: host, *.host, an IP address or a CIDR block. The addresses allowed under “Security” apply here too.', 'Hosts, die Seiten erreichen dürfen, obwohl ihre Adresse privat oder lokal ist: host, *.host, eine IP-Adresse oder ein CIDR-Block. Die unter „Sicherheit“ erlaubten Adressen gelten auch hier.'],
  'browser.ssrf_blocklist': ['Blocked addresses', 'Gesperrte Adressen', 'Hosts that pages may never reach. Like the addresses blocked under “Security”, these take precedence over all allowed ones.', 'Hosts, die Seiten nie erreichen dürfen. Sie haben wie die unter „Sicherheit“ gesperrten Adressen Vorrang vor allen erlaubten.'],
  'email.enabled': ['Enabled', 'Aktiviert', 'Requires a server and a sender.', 'Benötigt Server und Absender.'],
  'email.smtp_host': ['Server', 'Server', 'Name or IP address of the SMTP server.', 'Name oder IP-Adresse des SMTP-Servers.'],
  'email.smtp_port': ['Port', 'Port', 'Usually 587 with STARTTLS and 465 with TLS.', 'Meist 587 mit STARTTLS und 465 mit TLS.'],
  'email.tls': ['Encryption', 'Verschlüsselung', 'Encryption of the connection to the mail server.', 'Verschlüsselung der Verbindung zum Mailserver.'],
  'email.username': ['Username', 'Benutzername', 'Leave empty to connect without signing in.', 'Leer lassen, um ohne Anmeldung zu verbinden.'],
  'email.password': ['Password', 'Passwort', 'Stored encrypted and never shown again. Enter it again after you change the server or port, or turn off encryption.', 'Wird verschlüsselt gespeichert und nie wieder angezeigt. Gib es neu ein, wenn du Server oder Port änderst oder die Verschlüsselung ausschaltest.'],
  'email.from_address': ['Sender address', 'Absenderadresse', 'The address of the sender, such as name@example.org.', 'Die Adresse des Absenders, zum Beispiel name@example.org.'],
  'security.session_ttl_seconds': ['Session length (seconds)', 'Sitzungsdauer (Sekunden)', 'How long a sign-in stays valid. Applies to new sessions.', 'Wie lange eine Anmeldung gültig bleibt. Gilt für neue Sitzungen.'],
  'security.login_max_failures': ['Max. failed sign-ins', 'Max. Fehlversuche', 'After this many wrong passwords for one user from one address, each further attempt from there is delayed: first by one second, then by twice as long each time, up to one minute.', 'Nach so vielen falschen Passwörtern für einen Benutzer von einer Adresse wird jeder weitere Versuch von dort verzögert: zuerst eine Sekunde, dann jedes Mal doppelt so lange, höchstens eine Minute.'],
  'security.login_window_seconds': ['Failed sign-in window (seconds)', 'Zeitfenster für Fehlversuche (Sekunden)', 'How long a failed sign-in counts.', 'Wie lange ein Fehlversuch zählt.'],
  'security.approval_tools': ['Tools that always require approval', 'Werkzeuge, die immer eine Freigabe erfordern', 'Tool names; * at the end matches any suffix.', 'Namen von Werkzeugen; * am Ende steht für beliebige Endungen.'],
  'security.after_untrusted_text': ['After untrusted text', 'Nach nicht vertrauenswürdigem Text', 'What happens before a turn with untrusted text (web pages, tool servers, devices, unknown senders, data from hooks and webhooks) runs code, sends data out or makes lasting changes. Also applies to conversations that run tools without asking. Reading, searching and writing in the workspace are always allowed.', 'Was geschieht, bevor ein Durchlauf mit nicht vertrauenswürdigem Text (Webseiten, Werkzeugserver, Geräte, unbekannte Absender, Daten von Hooks und Webhooks) Code ausführt, Daten nach außen sendet oder dauerhafte Änderungen vornimmt. Gilt auch für Unterhaltungen ohne Freigaben. Lesen, Suchen und Schreiben im Arbeitsordner sind immer erlaubt.'],
  'security.allowed_hosts': ['Allowed private addresses', 'Erlaubte private Adressen', 'Hosts that agents may reach although their address is private or local: host, *.host, an IP address or a CIDR block.', 'Hosts, die Agenten erreichen dürfen, obwohl ihre Adresse privat oder lokal ist: host, *.host, eine IP-Adresse oder ein CIDR-Block.'],
  'security.blocked_hosts': ['Blocked addresses', 'Gesperrte Adressen', 'Hosts that may never be reached. They take precedence over the allowed addresses.', 'Hosts, die nie erreicht werden dürfen. Sie haben Vorrang vor den erlaubten Adressen.'],
  'security.private_hook_targets': ['Allow private hook targets', 'Private Hook-Ziele erlauben', 'Lets hooks reach private addresses and this server if you entered them yourself.', 'Erlaubt Hooks, private Adressen und diesen Server zu erreichen, wenn du sie selbst eingetragen hast.'],
  'security.approval_ttl_seconds': ['Approval timeout (seconds)', 'Frist für Freigaben (Sekunden)', 'How long an action waits for your approval.', 'Wie lange eine Aktion auf deine Freigabe wartet.'],
  'sandbox.backend': ['Sandbox type', 'Art der Sandbox', 'How code is isolated.', 'Wie Code isoliert wird.'],
  'sandbox.network': ['Network access', 'Netzwerkzugriff', 'Lets code reach the network through a proxy that applies the same rules as for requests by agents.', 'Erlaubt Code den Zugriff auf das Netzwerk über einen Proxy, für den dieselben Regeln wie für Anfragen von Agenten gelten.'],
  'sandbox.timeout_seconds': ['Time limit per run (seconds)', 'Zeitlimit pro Lauf (Sekunden)', 'Maximum duration of a run.', 'Höchstdauer eines Laufs.'],
  'sandbox.memory_limit_mb': ['Memory limit per run (MiB)', 'Speicherlimit pro Lauf (MiB)', 'For all processes of a run together.', 'Für alle Prozesse eines Laufs zusammen.'],
  'sandbox.workspace_limit_mb': ['Workspace size limit (MiB)', 'Max. Größe pro Arbeitsordner (MiB)', 'Limits the workspace of an agent, by file size or space on disk, whichever is larger. A workspace that is already larger can only shrink.', 'Höchstgröße des Arbeitsordners eines Agenten, gemessen an der Dateigröße oder der Belegung auf dem Datenträger, je nachdem, was größer ist. Ist ein Arbeitsordner bereits größer, kann er nur noch kleiner werden.'],
  'sandbox.workspace_max_files': ['Max. files per workspace', 'Max. Dateien pro Arbeitsordner', 'Limits the number of files and folders in the workspace of an agent.', 'Höchstzahl der Dateien und Ordner im Arbeitsordner eines Agenten.'],
  'sandbox.env_allowlist': ['Allowed environment variables', 'Erlaubte Umgebungsvariablen', 'Environment variables of agentd that are passed to code.', 'Umgebungsvariablen von agentd, die an Code weitergegeben werden.'],
  'sandbox.writable_paths': ['Additional writable folders', 'Weitere beschreibbare Ordner', 'Folders besides the workspace that code may write to. Absolute paths.', 'Ordner, in die Code außer dem Arbeitsordner schreiben darf. Absolute Pfade.'],
  'backup.schedule': ['Automatic backups', 'Automatische Sicherungen', 'Creates a backup every day, without keys and passwords. Unreadable files are skipped and counted.', 'Erstellt täglich eine Sicherung ohne Schlüssel und Passwörter. Nicht lesbare Dateien werden übersprungen und gezählt.'],
  'backup.hour': ['Hour of day', 'Uhrzeit (Stunde)', 'Hour in the time zone of your profile. The first backup is created soon after you turn this on.', 'Stunde in der Zeitzone deines Profils. Die erste Sicherung wird kurz nach dem Einschalten erstellt.'],
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
