import type { SettingsChoice, SettingsField } from '../../lib/api-types';
import { language } from '../../lib/text.svelte';

/**
 * Labels and German descriptions of the settings fields. The English descriptions come from the OpenAPI document. A
 * field that is unknown to the document, or missing here, does not compile.
 */
const FIELDS: Record<SettingsField, [en: string, de: string, text: string]> = {
  'profile.display_name': ['Display name', 'Anzeigename', 'So sprechen dich Agenten an.'],
  'profile.email': ['Email address', 'E-Mail-Adresse', 'Leer, oder eine Adresse wie name@example.org.'],
  'profile.avatar_url': ['Picture URL', 'Bild-URL', 'Ein hochgeladenes Bild oder die Adresse (http oder https) eines anderen Bildes. Leer lassen für kein Bild.'],
  'profile.timezone': ['Time zone', 'Zeitzone', 'IANA-Name wie Europe/Berlin. Gilt für Tage, Budgets und Zeitpläne.'],
  'profile.theme': ['Theme', 'Design', 'Farben der Oberfläche.'],
  'interface.language': ['Agent language', 'Sprache der Agenten', 'Sprachkürzel wie en, de oder pt-BR. Agenten antworten in dieser Sprache. Zeitpläne werden auf Deutsch und Englisch formuliert, bei jeder anderen Sprache auf Englisch.'],
  'interface.date_format': ['Date format', 'Datumsformat', 'Y steht für das Jahr, M für den Monat, D für den Tag.'],
  'interface.show_token_usage': ['Show token usage', 'Tokens anzeigen', 'Zeigt zu jeder Antwort die Zahl der Tokens.'],
  'interface.default_agent': ['Default agent', 'Standardagent', 'Wird verwendet, wenn eine Anfrage keinen Agenten nennt.'],
  'agent.default_provider': ['Default provider', 'Standardanbieter', 'Wird verwendet, wenn ein Agent keinen Anbieter festlegt. Leer: der erste eingerichtete Anbieter, zuletzt das eingebaute Modell.'],
  'agent.default_model': ['Default model', 'Standardmodell', 'Wird verwendet, wenn ein Agent kein Modell festlegt: der Name beim Anbieter oder Anbieter/Modell. Leer: der Standard des Anbieters.'],
  'agent.temperature': ['Temperature', 'Temperatur', '0 liefert die vorhersehbarsten Antworten. Leer: der Standard des Modells.'],
  'agent.max_output_tokens': ['Max. output tokens', 'Max. Ausgabe-Tokens', 'Begrenzt die Länge einer Antwort. Leer: der Standard des Modells.'],
  'agent.max_tool_rounds': ['Max. tool rounds per turn', 'Max. Werkzeugrunden pro Durchlauf', 'Wie oft ein Durchlauf mit Werkzeugergebnissen zum Modell zurückkehren darf.'],
  'agent.request_timeout_seconds': ['Request timeout (seconds)', 'Zeitlimit pro Anfrage (Sekunden)', 'Begrenzt einen Modellaufruf bis zum letzten Token.'],
  'agent.instructions': ['Instructions for all agents', 'Anweisungen für alle Agenten', 'Werden dem System-Prompt jedes Agenten hinzugefügt.'],
  'agent.daily_token_limit': ['Daily token limit', 'Tägliches Token-Limit', 'Der Tag richtet sich nach der Zeitzone im Profil. Leer: kein Limit.'],
  'agent.total_token_limit': ['Total token limit', 'Gesamtes Token-Limit', 'Summe aller Tokens. Leer: kein Limit.'],
  'agent.local_model': ['Built-in model', 'Eingebautes Modell', 'Eine GGUF-Datei im Ordner models des Datenverzeichnisses. Leer: die vorhandene Datei.'],
  'strategy.planning': ['Planning', 'Planung', 'Ob ein Durchlauf einen Plan erstellt, bevor er handelt.'],
  'strategy.reflection': ['Reflection', 'Prüfung', 'Prüft die Antwort nach dem Einsatz von Werkzeugen noch einmal. Erfordert einen weiteren Modellaufruf.'],
  'strategy.max_parallel_tools': ['Max. parallel tools', 'Max. parallele Werkzeuge', 'Wie viele Werkzeuge einer Runde gleichzeitig laufen; weitere warten.'],
  'strategy.compaction_threshold': ['Compaction threshold', 'Schwelle für Verdichtung', 'Anteil des Kontextfensters, ab dem die ältesten Durchläufe einer Unterhaltung zusammengefasst werden.'],
  'proactive.enabled': ['Enabled', 'Aktiviert', 'Ob Agenten nach Vorschlägen und fehlgeschlagenen Läufen selbst Durchläufe beginnen dürfen.'],
  'proactive.quiet_hours': ['Quiet hours', 'Ruhezeit', 'In dieser Zeit werden Agenten nicht selbst aktiv, und Geräte erhalten nur dringende Mitteilungen. Sie darf über Mitternacht gehen.'],
  'proactive.quiet_hours.start': ['From', 'Von', 'Beginn als HH:MM.'],
  'proactive.quiet_hours.end': ['To', 'Bis', 'Ende als HH:MM. Gleich dem Beginn: keine Ruhezeit.'],
  'proactive.quiet_hours.timezone': ['Time zone', 'Zeitzone', 'IANA-Name. Leer: die Zeitzone im Profil.'],
  'proactive.max_per_day': ['Max. turns per day', 'Max. Durchläufe pro Tag', 'Wie viele Durchläufe ein Agent am Tag selbst beginnt. Der Tag richtet sich nach der Zeitzone im Profil.'],
  'proactive.delivery': ['Send output to', 'Ausgabe senden an', '<Plattform>:<Kanal> (discord, slack, telegram, whatsapp, teams, google_chat), email:<Adresse> oder push: für deine Geräte. Leer: Die Ausgabe erscheint nur in der Liste.'],
  'proactive.push_approvals': ['New approvals', 'Neue Freigaben', 'Sendet eine Push-Mitteilung, wenn eine Freigabe nötig ist.'],
  'proactive.push_alerts': ['Firing alerts', 'Ausgelöste Alarme', 'Sendet eine Push-Mitteilung, wenn ein Alarm auslöst.'],
  'memory.enabled': ['Enabled', 'Aktiviert', 'Aus: Es werden keine neuen Erinnerungen gespeichert oder abgerufen. Vorhandene lassen sich weiterhin lesen und löschen.'],
  'memory.auto_store': ['Store automatically', 'Automatisch speichern', 'Speichert automatisch, was in Unterhaltungen gesagt wird.'],
  'memory.auto_recall': ['Recall before replying', 'Vor Antworten abrufen', 'Ob Agenten vor einer Antwort ihr Gedächtnis abrufen.'],
  'memory.recall_limit': ['Max. recalled episodes', 'Max. abgerufene Episoden', 'Höchstzahl der Episoden, die vor einer Antwort abgerufen werden.'],
  'memory.min_importance': ['Minimum importance', 'Mindestwichtigkeit', 'Automatisch erkannte Inhalte unter diesem Wert werden nicht gespeichert. Wird der Wert erhöht, werden bereits automatisch gespeicherte darunter gelöscht.'],
  'memory.retention_days': ['Retention (days)', 'Aufbewahrung (Tage)', 'Episoden, die so lange weder gespeichert noch abgerufen noch geändert wurden, werden gelöscht. 0 bewahrt sie unbegrenzt auf.'],
  'memory.entity_extraction': ['Entity extraction', 'Erkennung von Entitäten', 'Wie Entitäten in Episoden erkannt werden. Das eingebaute Verfahren benötigt das mitgelieferte Embedding-Modell; ohne dessen Gewichte bleiben das Modell des Agenten oder „Aus“.'],
  'memory.consolidate_interval_minutes': ['Consolidation interval (minutes)', 'Intervall der Konsolidierung (Minuten)', 'Wie oft Unterhaltungen nach neuen Informationen durchsucht werden. 0: nur manuell.'],
  'browser.backend': ['Browser', 'Browser', 'Der gesteuerte Browser.'],
  'browser.headless': ['Headless', 'Ohne Fenster', 'Bei einer Änderung startet die nächste Aktion ein neues Chromium.'],
  'browser.auto_snapshot': ['Automatic snapshots', 'Automatische Snapshots', 'Ob Aktionen mit einem Snapshot der Seite antworten.'],
  'browser.snapshot_interval_ms': ['Snapshot interval (milliseconds)', 'Intervall der Snapshots (Millisekunden)', 'Mindestabstand zwischen zwei Snapshots. Aktionen dazwischen antworten ohne Snapshot, damit schnelle Skripte nicht gebremst werden.'],
  'browser.stream_fps': ['Live view frame rate (fps)', 'Bildrate der Live-Ansicht (Bilder pro Sekunde)', 'Zahl der Bilder, die pro Sekunde gesendet werden.'],
  'browser.stream_quality': ['Live view quality', 'Qualität der Live-Ansicht', 'JPEG-Qualität der gesendeten Bilder.'],
  'browser.ssrf_allowlist': ['Allowed private addresses', 'Erlaubte private Adressen', 'Hosts, die Seiten erreichen dürfen, obwohl ihre Adresse privat oder lokal ist: host, *.host, eine IP-Adresse oder ein CIDR-Block. Die unter Sicherheit erlaubten Adressen gelten auch hier.'],
  'browser.ssrf_blocklist': ['Blocked addresses', 'Gesperrte Adressen', 'Hosts, die Seiten nie erreichen dürfen. Hat wie die unter Sicherheit gesperrten Adressen Vorrang vor allen erlaubten.'],
  'email.enabled': ['Enabled', 'Aktiviert', 'Benötigt Server und Absender.'],
  'email.smtp_host': ['Server', 'Server', 'Name oder IP-Adresse des SMTP-Servers.'],
  'email.smtp_port': ['Port', 'Port', 'Meist 587 mit STARTTLS und 465 mit TLS.'],
  'email.tls': ['Encryption', 'Verschlüsselung', 'Verschlüsselung der Verbindung zum Mailserver.'],
  'email.username': ['Username', 'Benutzername', 'Leer: ohne Anmeldung.'],
  'email.password': ['Password', 'Passwort', 'Wird verschlüsselt gespeichert und nie wieder angezeigt. Nach einer Änderung von Server oder Port, oder wenn die Verschlüsselung entfällt, musst du es neu eingeben.'],
  'email.from_address': ['Sender', 'Absender', 'Die Adresse des Absenders, zum Beispiel name@example.org.'],
  'security.session_ttl_seconds': ['Session length (seconds)', 'Sitzungsdauer (Sekunden)', 'Wie lange eine Anmeldung gültig bleibt. Gilt für neue Sitzungen.'],
  'security.login_max_failures': ['Max. failed sign-ins', 'Max. Fehlversuche', 'Nach so vielen falschen Passwörtern für einen Benutzer von einer Adresse wird jeder weitere Versuch von dort verzögert: zuerst eine Sekunde, dann jedes Mal doppelt so lange, höchstens eine Minute.'],
  'security.login_window_seconds': ['Failed sign-in window (seconds)', 'Zeitfenster für Fehlversuche (Sekunden)', 'Wie lange ein falsches Passwort zählt.'],
  'security.approval_tools': ['Tools that always ask', 'Werkzeuge, die immer fragen', 'Namen von Werkzeugen, die immer eine Freigabe erfordern; * am Ende steht für beliebige Endungen.'],
  'security.after_untrusted_text': ['After untrusted text', 'Nach nicht vertrauenswürdigem Text', 'Ob Durchläufe mit nicht vertrauenswürdigem Text (Webseiten, Werkzeugserver, Geräte, unbekannte Absender, Daten von Hooks und Webhooks) eine Freigabe benötigen, bevor sie Code ausführen, etwas nach außen senden oder dauerhaft ändern. Gilt auch für Unterhaltungen ohne Rückfragen. Lesen, Suchen und Schreiben im Arbeitsordner bleiben erlaubt.'],
  'security.allowed_hosts': ['Allowed private addresses', 'Erlaubte private Adressen', 'Hosts, die Agenten erreichen dürfen, obwohl ihre Adresse privat oder lokal ist: host, *.host, eine IP-Adresse oder ein CIDR-Block.'],
  'security.blocked_hosts': ['Blocked addresses', 'Gesperrte Adressen', 'Hosts, die nie erreicht werden dürfen. Hat Vorrang vor den erlaubten Adressen.'],
  'security.private_hook_targets': ['Allow private hook targets', 'Private Hook-Ziele erlauben', 'Ob Hooks private Adressen und diesen Rechner erreichen dürfen, wenn du sie selbst eingetragen hast.'],
  'security.approval_ttl_seconds': ['Approval timeout (seconds)', 'Frist für Freigaben (Sekunden)', 'Wie lange eine Aktion auf ihre Freigabe wartet.'],
  'sandbox.backend': ['Sandbox type', 'Art der Sandbox', 'Womit Code isoliert wird.'],
  'sandbox.network': ['Network access', 'Netzwerkzugriff', 'Ob Code das Netzwerk erreicht. Der Zugriff läuft über einen Proxy, für den dieselben Regeln wie für Anfragen von Agenten gelten.'],
  'sandbox.timeout_seconds': ['Time limit per run (seconds)', 'Zeitlimit pro Lauf (Sekunden)', 'Höchstdauer eines Laufs.'],
  'sandbox.memory_limit_mb': ['Memory limit per run (MB)', 'Speicherlimit pro Lauf (MB)', 'Für alle Prozesse eines Laufs zusammen.'],
  'sandbox.workspace_limit_mb': ['Workspace size limit (MB)', 'Max. Größe eines Arbeitsordners (MB)', 'Höchstgröße des Arbeitsordners eines Agenten, gemessen an der Dateigröße oder der Belegung auf dem Datenträger, je nachdem, was größer ist. Ist ein Arbeitsordner bereits größer, kann er nur noch kleiner werden.'],
  'sandbox.workspace_max_files': ['Max. files per workspace', 'Max. Dateien pro Arbeitsordner', 'Höchstzahl der Dateien und Ordner im Arbeitsordner eines Agenten.'],
  'sandbox.env_allowlist': ['Allowed environment variables', 'Erlaubte Umgebungsvariablen', 'Umgebungsvariablen von agentd, die an Code weitergegeben werden.'],
  'sandbox.writable_paths': ['Additional writable folders', 'Weitere beschreibbare Ordner', 'Ordner, in die Code außer dem Arbeitsordner schreiben darf. Absolute Pfade.'],
  'backup.schedule': ['Automatic backups', 'Automatische Sicherungen', 'Erstellt täglich eine Sicherung ohne Schlüssel und Passwörter. Nicht lesbare Dateien werden übersprungen und gezählt.'],
  'backup.hour': ['Hour of day', 'Uhrzeit (Stunde)', 'Stunde in der Zeitzone des Profils. Die erste Sicherung entsteht kurz nach dem Einschalten.'],
  'backup.keep': ['Backups to keep', 'Anzahl der Sicherungen', 'Wie viele tägliche Sicherungen aufbewahrt werden. Ältere werden nach jeder neuen Sicherung gelöscht.'],
  'backup.limit_mb': ['Size limit for all backups (MB)', 'Max. Größe aller Sicherungen (MB)', 'Höchstgröße aller Sicherungen zusammen. Zusätzlich gilt der freie Platz auf dem Datenträger.'],
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

/** Description of a field; `english` is the one of the OpenAPI document. */
export function fieldText(category: string, path: string, english: string | undefined, empty: string): string {
  const german = isGerman() && known(FIELDS, `${category}.${path}`)?.[2];
  return german || (english ?? '').replace(/\s*\n\s*/g, ' ').replaceAll('`null`', empty).replaceAll('`', '');
}

export function choiceName(category: string, path: string, value: string): string {
  return known(CHOICES, `${category}.${path}=${value}`)?.[isGerman() ? 1 : 0] ?? value;
}
