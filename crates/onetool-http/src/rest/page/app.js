"use strict";
// Builds one form per operation from /openapi.json. Everything is set as text, never as markup.
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

const resolve = (root, schema) =>
  schema && schema.$ref ? schema.$ref.split("/").slice(1).reduce((at, key) => at[key], root) : schema || {};

// Returns an initial body: required members, and those with an example or a default.
const sample = (root, schema, depth = 0) => {
  schema = resolve(root, schema);
  if (depth > 5) return null;
  if (schema.example !== undefined) return schema.example;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  const one = (schema.oneOf || schema.anyOf || schema.allOf || [])[0];
  if (one) return sample(root, one, depth + 1);
  const type = [].concat(schema.type || "object")[0];
  if (type === "string") return "";
  if (type === "boolean") return true;
  if (type === "integer" || type === "number") return schema.minimum || 0;
  if (type === "array") return [];
  const value = {};
  for (const [name, property] of Object.entries(schema.properties || {})) {
    const known = resolve(root, property);
    if ((schema.required || []).includes(name) || known.example !== undefined || known.default !== undefined) {
      value[name] = sample(root, property, depth + 1);
    }
  }
  return value;
};

const operation = (root, path, method, described) => {
  const form = make("form");
  const inputs = [];
  for (const parameter of described.parameters || []) {
    const input = make("input", { required: parameter.required === true, name: parameter.name });
    inputs.push([parameter, input]);
    const note = parameter.description ? ` – ${parameter.description}` : "";
    form.append(make("label", {}, make("span", {}, parameter.name, make("small", { textContent: note })), input));
  }
  const media = described.requestBody && described.requestBody.content["application/json"];
  const body = media && make("textarea", { value: JSON.stringify(sample(root, media.schema), null, 2), spellcheck: false });
  if (body) form.append(make("label", {}, "Body", body));
  const match = ["put", "patch", "delete"].includes(method) && make("input", { placeholder: '"…"' });
  if (match) form.append(make("label", {}, "If-Match", match));
  const output = make("pre", { hidden: true });
  form.append(make("button", { textContent: "Send" }), output);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    output.hidden = false;
    output.textContent = "…";
    let target = path;
    const query = new URLSearchParams();
    for (const [parameter, input] of inputs) {
      if (parameter.in === "path") target = target.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value !== "") query.set(parameter.name, input.value);
    }
    const headers = {};
    const token = document.getElementById("token").value;
    if (token) headers.Authorization = `Bearer ${token}`;
    if (body) headers["Content-Type"] = "application/json";
    if (match && match.value) headers["If-Match"] = match.value;
    try {
      const suffix = query.size ? `?${query}` : "";
      const response = await fetch(target + suffix, { method: method.toUpperCase(), headers, body: body ? body.value : undefined });
      const text = await response.text();
      let shown = text;
      try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: as it is */ }
      const etag = response.headers.get("etag");
      output.textContent = `${response.status} ${response.statusText}${etag ? `\nETag: ${etag}` : ""}\n\n${shown}`;
    } catch (error) {
      output.textContent = String(error);
    }
  });
  const title = make("summary", {}, make("b", { textContent: method.toUpperCase() }), make("code", { textContent: path }),
    make("small", { textContent: ` ${described.summary || described.description || ""}` }));
  return make("details", {}, title, form);
};

(async () => {
  const place = document.getElementById("operations");
  try {
    const root = await (await fetch("/openapi.json")).json();
    const all = Object.entries(root.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, described]) => operation(root, path, method, described)));
    place.replaceChildren(...all);
  } catch (error) {
    place.textContent = `The description could not be read: ${error}`;
  }
})();
