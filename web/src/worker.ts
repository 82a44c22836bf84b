// Work that could block the page: parsing and showing large JSON, and validating arguments against untrusted schemas (a
// pattern may take forever; the page then terminates this worker and starts another).
import { type Schema, Validator } from '@cfworker/json-schema';
import { JsonModel } from './json/model';
import type { Request, Problem } from './json/protocol';

const models = new Map<number, JsonModel>();
let lastModel = 0;

function answer(request: Request): unknown {
  switch (request.op) {
    case 'open': {
      const text = typeof request.text === 'string' ? request.text : new TextDecoder().decode(request.text);
      const model = JsonModel.parse(text);
      lastModel += 1;
      models.set(lastModel, model);
      return { model: lastModel, count: model.count, table: model.table };
    }
    case 'close':
      models.delete(request.model);
      return null;
    case 'rows':
      return models.get(request.model)?.rows(request.from, request.to) ?? [];
    case 'cells':
      return models.get(request.model)?.cells(request.from, request.to) ?? [];
    case 'toggle':
      return models.get(request.model)?.toggle(request.index) ?? 0;
    case 'find': {
      const model = models.get(request.model);
      const index = model?.find(request.text, request.from) ?? -1;
      return { index, count: model?.count ?? 0 };
    }
    case 'text':
      return models.get(request.model)?.text(request.index, request.indent) ?? '';
    case 'validate':
      return validate(request.schema, request.value);
  }
}

function validate(schema: unknown, value: unknown): Problem[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const validator = new Validator(schema as Schema, '2020-12', false);
  return validator.validate(value).errors.map((error) => ({
    path: error.instanceLocation.replace(/^#/, ''),
    keyword: error.keyword,
    at: error.keywordLocation,
    message: error.error,
  }));
}

// Timeouts of requests are counted from this message.
self.postMessage({ id: 0 });

self.onmessage = (event: MessageEvent<{ id: number; request: Request }>) => {
  const { id, request } = event.data;
  try {
    self.postMessage({ id, value: answer(request) });
  } catch (error) {
    self.postMessage({ id, error: error instanceof Error ? error.message : String(error) });
  }
};
