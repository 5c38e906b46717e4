import { api, ok, type Schemas } from '../../lib/api';

export type Price = Schemas['PriceView'];

export const same = (a: { provider: string; model: string }, b: { provider: string; model: string }) => a.provider === b.provider && a.model === b.model;

/** A price as it is set, without what the daemon adds. */
export function own({ origin, ...price }: Price): Schemas['PriceFields'] {
  return price;
}

/** The prices that are set here are replaced as a whole: they are read just before, so that none that came meanwhile is lost. */
export async function setPrices(make: (mine: Price[]) => Schemas['PriceFields'][]): Promise<Price[]> {
  const { prices } = await ok(api.GET('/api/monitoring/prices'));
  const next = make(prices.filter(({ origin }) => origin === 'override')).map((price) => ('origin' in price ? own(price as Price) : price));
  return (await ok(api.PUT('/api/monitoring/prices', { body: { prices: next } }))).prices;
}
