import { api, ok, type Schemas } from '../../lib/api';

export type Price = Schemas['PriceView'];

export const same = (a: { provider: string; model: string }, b: { provider: string; model: string }) => a.provider === b.provider && a.model === b.model;

/** The editable fields of a price. */
export function own({ origin, ...price }: Price): Schemas['PriceFields'] {
  return price;
}

/** Changes the custom prices. The API replaces all of them, so they are loaded first to keep concurrent changes. */
export async function setPrices(make: (mine: Price[]) => Schemas['PriceFields'][]): Promise<Price[]> {
  const { prices } = await ok(api.GET('/api/monitoring/prices'));
  const next = make(prices.filter(({ origin }) => origin === 'override')).map((price) => ('origin' in price ? own(price as Price) : price));
  return (await ok(api.PUT('/api/monitoring/prices', { body: { prices: next } }))).prices;
}
