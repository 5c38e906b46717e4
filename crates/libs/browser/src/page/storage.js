// Runs in an empty page of an origin; saves and restores its storage in Playwright's format.
(() => {
  const MAX_DATABASES = 50;
  // Maximum depth of a value; its encoded form is up to three times as deep.
  const MAX_DEPTH = 20;
  // Time limit for all databases together, since a page may block one indefinitely.
  const PATIENCE_MS = 5000;
  const WORDS = { null: null, NaN, Infinity, '-Infinity': -Infinity, '-0': -0 };
  const ARRAYS = {
    i8: Int8Array, ui8: Uint8Array, ui8c: Uint8ClampedArray, i16: Int16Array, ui16: Uint16Array, i32: Int32Array,
    ui32: Uint32Array, f32: Float32Array, f64: Float64Array, bi64: BigInt64Array, bui64: BigUint64Array,
  };

  const asked = (request) => new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
  const toBase64 = (bytes) => {
    let text = '';
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    return btoa(text);
  };
  const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

  // Stores a value under its name if JSON represents it exactly, or else its encoded form.
  const written = (name, value) => {
    const known = new Map();
    let isPlain = true;
    const special = (form) => { isPlain = false; return form; };
    const write = (value, depth) => {
      if (depth > MAX_DEPTH) throw new Error('too deep');
      if (value === undefined) return special({ v: 'undefined' });
      if (value === null) return { v: 'null' };
      if (Object.is(value, -0)) return special({ v: '-0' });
      if (typeof value === 'number' && !Number.isFinite(value)) return special({ v: String(value) });
      if (typeof value === 'bigint') return special({ bi: String(value) });
      if (typeof value !== 'object') return value;
      if (known.has(value)) return special({ ref: known.get(value) });
      if (value instanceof Date) return special({ d: isNaN(value) ? 'Invalid Date' : value.toJSON() });
      if (value instanceof RegExp) return special({ r: { p: value.source, f: value.flags } });
      if (value instanceof Error) return special({ e: { n: value.name, m: value.message, s: value.stack || '' } });
      if (value instanceof ArrayBuffer) return special({ ab: { b: toBase64(new Uint8Array(value)) } });
      const k = Object.keys(ARRAYS).find((at) => value instanceof ARRAYS[at]);
      if (k) return special({ ta: { b: toBase64(new Uint8Array(value.buffer, value.byteOffset, value.byteLength)), k } });
      const id = known.size + 1;
      known.set(value, id);
      const inner = (item) => write(item, depth + 1);
      if (Array.isArray(value)) return { a: Array.from(value, inner), id };
      if (value instanceof Map) return special({ m: Array.from(value, ([k, v]) => ({ k: inner(k), v: inner(v) })), id });
      if (value instanceof Set) return special({ s: Array.from(value, inner), id });
      // Files, WebCrypto keys and others cannot be serialized.
      if (Object.getPrototypeOf(value) !== Object.prototype) throw new Error('the value has no JSON form');
      return { o: Object.keys(value).map((k) => ({ k, v: inner(value[k]) })), id };
    };
    const form = write(value, 0);
    return isPlain ? { [name]: value } : { [`${name}Encoded`]: form };
  };

  const read = (form, known) => {
    if (typeof form !== 'object' || form === null) return form;
    const keep = (value) => { known.set(form.id, value); return value; };
    if ('ref' in form) return known.get(form.ref);
    if ('v' in form) return WORDS[form.v];
    if ('d' in form) return new Date(form.d);
    if ('bi' in form) return BigInt(form.bi);
    if ('r' in form) return new RegExp(form.r.p, form.r.f);
    if ('e' in form) return Object.assign(new Error(form.e.m), { name: form.e.n, stack: form.e.s });
    if ('ab' in form) return fromBase64(form.ab.b).buffer;
    if ('ta' in form) return new ARRAYS[form.ta.k](fromBase64(form.ta.b).buffer);
    if ('a' in form) {
      const list = keep([]);
      for (const item of form.a) list.push(read(item, known));
      return list;
    }
    if ('m' in form) {
      const map = keep(new Map());
      for (const { k, v } of form.m) map.set(read(k, known), read(v, known));
      return map;
    }
    if ('s' in form) {
      const set = keep(new Set());
      for (const item of form.s) set.add(read(item, known));
      return set;
    }
    if (!('o' in form)) throw new Error('unknown value format');
    const object = keep({});
    for (const { k, v } of form.o)
      Object.defineProperty(object, k, { value: read(v, known), writable: true, enumerable: true, configurable: true });
    return object;
  };
  const valueIn = (record, name) => name in record ? record[name] : read(record[`${name}Encoded`], new Map());
  const hasKey = (record) => 'key' in record || 'keyEncoded' in record;

  const pathOf = ({ keyPath }) => Array.isArray(keyPath) ? { keyPathArray: keyPath } : keyPath === null ? {} : { keyPath };
  const storeOf = (store, budget) => new Promise((done, failed) => {
    const records = [];
    const indexes = [...store.indexNames].map((name) => store.index(name)).map((index) => (
      { name: index.name, ...pathOf(index), multiEntry: index.multiEntry, unique: index.unique }));
    const whole = { name: store.name, records, indexes, autoIncrement: store.autoIncrement, ...pathOf(store) };
    const request = store.openCursor();
    request.onerror = () => failed(request.error);
    request.onsuccess = () => {
      const cursor = request.result;
      if (!cursor) return done(whole);
      try {
        const key = store.keyPath === null ? written('key', cursor.primaryKey) : {};
        const record = { ...key, ...written('value', cursor.value) };
        budget.left -= JSON.stringify(record).length;
        if (budget.left < 0) throw new Error('too much');
        records.push(record);
        cursor.continue();
      } catch (error) {
        failed(error);
      }
    };
  });
  const databaseOf = async (name, budget) => {
    const opening = indexedDB.open(name);
    // The database was deleted in the meantime; do not create it.
    opening.onupgradeneeded = () => opening.transaction.abort();
    const database = await asked(opening);
    try {
      const stores = [];
      const names = [...database.objectStoreNames];
      const transaction = names.length ? database.transaction(names, 'readonly') : null;
      for (const name of names) stores.push(await storeOf(transaction.objectStore(name), budget));
      return { name, version: database.version, stores };
    } finally {
      database.close();
    }
  };

  const putBack = async ({ name, version, stores }) => {
    const opening = indexedDB.open(name, version);
    opening.onupgradeneeded = () => {
      for (const { name, autoIncrement, keyPath, keyPathArray, indexes } of stores) {
        const store = opening.result.createObjectStore(name, { autoIncrement, keyPath: keyPathArray ?? keyPath ?? null });
        for (const { name, keyPath, keyPathArray, unique, multiEntry } of indexes)
          store.createIndex(name, keyPathArray ?? keyPath, { unique, multiEntry });
      }
    };
    const database = await asked(opening);
    try {
      if (!stores.length) return;
      const transaction = database.transaction(stores.map(({ name }) => name), 'readwrite');
      const ended = new Promise((done, failed) => {
        transaction.oncomplete = done;
        transaction.onabort = () => failed(transaction.error);
      });
      for (const { name, records } of stores) {
        const store = transaction.objectStore(name);
        for (const record of records) store.add(valueIn(record, 'value'), ...(hasKey(record) ? [valueIn(record, 'key')] : []));
      }
      await ended;
    } finally {
      database.close();
    }
  };

  return {
    // Returns all storage in up to `most` characters; a database that does not fit or cannot be serialized is omitted.
    async save(most) {
      const budget = { left: most };
      const [databases, leftOut] = [[], []];
      const names = (await indexedDB.databases()).map(({ name }) => name);
      const late = new Promise((_, failed) => setTimeout(failed, PATIENCE_MS, new Error('late')));
      late.catch(() => {});
      for (const [at, name] of names.entries()) {
        const { left } = budget;
        try {
          if (at >= MAX_DATABASES) throw new Error('too many');
          databases.push(await Promise.race([databaseOf(name, budget), late]));
        } catch {
          budget.left = left;
          leftOut.push(name.slice(0, 200));
        }
      }
      return { items: Object.entries(localStorage), databases, left_out: leftOut.slice(0, MAX_DATABASES) };
    },

    // Throws for values that the browser rejects.
    check(databases) {
      for (const record of databases.flatMap(({ stores }) => stores).flatMap(({ records }) => records)) {
        structuredClone(valueIn(record, 'value'));
        if (hasKey(record)) indexedDB.cmp(valueIn(record, 'key'), valueIn(record, 'key'));
      }
      return true;
    },

    async restore(items, databases) {
      localStorage.clear();
      for (const [name, value] of items) localStorage.setItem(name, value);
      for (const database of databases) await putBack(database);
      return true;
    },
  };
})()
