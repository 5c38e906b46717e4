import Gamepad2 from '@lucide/svelte/icons/gamepad-2';
import Hash from '@lucide/svelte/icons/hash';
import MessagesSquare from '@lucide/svelte/icons/messages-square';
import Phone from '@lucide/svelte/icons/phone';
import Send from '@lucide/svelte/icons/send';
import Users from '@lucide/svelte/icons/users';
import type { Component } from 'svelte';
import type { Schemas } from '../../lib/api';
import type { t } from './texts';

type Text = Parameters<typeof t>[0];
export type Mode = Schemas['ChannelMode'];
export type PlatformId = keyof Schemas['ChannelSettings'];

export interface Value {
  name: string;
  label: Text;
  hint?: Text;
  /** `file` is a secret that is uploaded as a file. */
  kind: 'secret' | 'text' | 'file';
  /** Restricts the field to one connection mode. */
  mode?: Mode;
  optional?: boolean;
  /** Whether the value is arbitrary, so that the page can generate it. */
  madeUp?: boolean;
  maxLength?: number;
}

export interface Platform {
  id: PlatformId;
  name: string;
  icon: Component<{ size?: number }>;
  /** Whether outgoing connections are supported. */
  connects: boolean;
  /** Website for the setup. */
  site?: string;
  /** Setup instructions before and after entering the credentials. */
  before: Record<Mode, Text[]>;
  after: Record<Mode, Text[]>;
  values: Value[];
  /** What `POST …/register` registers, and in which mode. */
  registers?: { what: 'webhook' | 'commands'; mode?: Mode };
  first: Text;
  /** Example of a channel. */
  example: string;
  channel: Text;
  /** Endpoints in addition to `api_base_url`. */
  addresses: string[];
}

const botToken: Value = { name: 'bot_token', label: 'botToken', kind: 'secret' };

export const platforms: Platform[] = [
  {
    id: 'telegram',
    name: 'Telegram',
    icon: Send,
    connects: true,
    site: 'https://t.me/BotFather',
    before: { webhook: ['telegramBot'], connect: ['telegramBot'] },
    after: { webhook: [], connect: [] },
    values: [botToken, { name: 'secret_token', label: 'secretToken', hint: 'secretTokenHint', kind: 'secret', mode: 'webhook', madeUp: true }],
    registers: { what: 'webhook', mode: 'webhook' },
    first: 'telegramFirst',
    example: '123456789',
    channel: 'telegramChannel',
    addresses: [],
  },
  {
    id: 'slack',
    name: 'Slack',
    icon: Hash,
    connects: true,
    site: 'https://api.slack.com/apps',
    before: { webhook: ['slackApp', 'slackScopes', 'slackValues'], connect: ['slackApp', 'slackScopes', 'slackSocket', 'slackEvents'] },
    after: { webhook: ['slackAddress', 'slackInteractivity'], connect: [] },
    values: [botToken, { name: 'signing_secret', label: 'signingSecret', kind: 'secret', mode: 'webhook' }, { name: 'app_token', label: 'appToken', hint: 'appTokenHint', kind: 'secret', mode: 'connect' }],
    first: 'slackFirst',
    example: 'C0123456789',
    channel: 'slackChannel',
    addresses: [],
  },
  {
    id: 'discord',
    name: 'Discord',
    icon: Gamepad2,
    connects: true,
    site: 'https://discord.com/developers/applications',
    before: { webhook: ['discordApp', 'discordValues'], connect: ['discordApp', 'discordIntent', 'discordValues'] },
    after: { webhook: ['discordAddress', 'discordInvite'], connect: ['discordPermissions'] },
    values: [
      { name: 'application_id', label: 'applicationId', kind: 'text', maxLength: 32 },
      { name: 'public_key', label: 'publicKey', kind: 'text', mode: 'webhook', maxLength: 64 },
      botToken,
    ],
    registers: { what: 'commands' },
    first: 'discordFirst',
    example: '123456789012345678',
    channel: 'discordChannel',
    addresses: [],
  },
  {
    id: 'whatsapp',
    name: 'WhatsApp',
    icon: Phone,
    connects: false,
    site: 'https://developers.facebook.com/apps',
    before: { webhook: ['whatsappApp', 'whatsappValues'], connect: [] },
    after: { webhook: ['whatsappAddress'], connect: [] },
    values: [
      { name: 'phone_number_id', label: 'phoneNumberId', hint: 'phoneNumberIdHint', kind: 'text', maxLength: 32 },
      { name: 'access_token', label: 'accessToken', kind: 'secret' },
      { name: 'app_secret', label: 'appSecret', kind: 'secret' },
      { name: 'verify_token', label: 'verifyToken', hint: 'verifyTokenHint', kind: 'secret', madeUp: true },
    ],
    first: 'whatsappFirst',
    example: '491701234567',
    channel: 'whatsappChannel',
    addresses: [],
  },
  {
    id: 'teams',
    name: 'Microsoft Teams',
    icon: Users,
    connects: false,
    site: 'https://portal.azure.com',
    before: { webhook: ['teamsBot', 'teamsValues'], connect: [] },
    after: { webhook: ['teamsAddress', 'teamsInstall'], connect: [] },
    values: [
      { name: 'app_id', label: 'appId', kind: 'text', maxLength: 64 },
      { name: 'app_password', label: 'appPassword', kind: 'secret' },
      { name: 'tenant_id', label: 'tenantId', hint: 'tenantIdHint', kind: 'text', optional: true, maxLength: 64 },
    ],
    first: 'teamsFirst',
    example: '19:…@thread.tacv2',
    channel: 'teamsChannel',
    addresses: ['login_base_url', 'keys_url'],
  },
  {
    id: 'google_chat',
    name: 'Google Chat',
    icon: MessagesSquare,
    connects: false,
    site: 'https://console.cloud.google.com/apis/library/chat.googleapis.com',
    before: { webhook: ['googleApi', 'googleAudience'], connect: [] },
    after: { webhook: ['googleAddress'], connect: [] },
    values: [
      { name: 'audience', label: 'audience', hint: 'audienceHint', kind: 'text', maxLength: 2048 },
      { name: 'service_account', label: 'serviceAccount', hint: 'serviceAccountHint', kind: 'file' },
    ],
    first: 'googleFirst',
    example: 'spaces/AAAA',
    channel: 'googleChannel',
    addresses: ['token_url', 'keys_url'],
  },
];

export const platformOf = (id: string | undefined) => platforms.find((each) => each.id === id);

/** Settings of a platform; fields differ by platform and are accessed by name. */
export type Settings = Record<string, unknown> & {
  enabled: boolean;
  agent_id: string | null;
  api_base_url: string | null;
  sender_policy: Schemas['SenderPolicy'];
  allowed_senders: string[];
  groups: Schemas['GroupPolicy'];
  tools: string[];
  attachments: boolean;
  mode?: Mode;
};

export const isSet = (value: unknown) => (typeof value === 'object' && value !== null ? (value as { set?: boolean }).set === true : typeof value === 'string' && value !== '');

/** Required values. */
export const missing = (platform: Platform, settings: Settings) =>
  platform.values.filter(({ name, mode, optional }) => !optional && (!mode || mode === (settings.mode ?? 'webhook')) && !isSet(settings[name]));

export type State = 'off' | 'ready' | 'connecting' | 'connected' | 'error' | 'incomplete';
export function stateOf(view: Schemas['ChannelView'], platform: Platform, settings: Settings | undefined): State {
  if (view.status === 'off' || view.status === 'error' || view.status === 'connected') return view.status;
  if (settings && missing(platform, settings).length) return 'incomplete';
  return view.mode === 'connect' ? 'connecting' : 'ready';
}
export const stateKinds = { off: 'plain', ready: 'good', connecting: 'accent', connected: 'good', error: 'bad', incomplete: 'warn' } as const;
