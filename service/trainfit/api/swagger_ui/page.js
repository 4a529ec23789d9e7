// Paths are relative to the page, so that it also works behind a proxy that adds a prefix.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  tryItOutEnabled: true,
  // The default asks a public service to validate the document.
  validatorUrl: null,
});
