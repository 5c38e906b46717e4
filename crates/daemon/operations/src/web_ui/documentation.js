// Shows the document of the daemon that served this page.
window.addEventListener("load", () => {
  window.ui = SwaggerUIBundle({
    url: "/api/openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    presets: [SwaggerUIBundle.presets.apis],
    // The standalone layout has a bar with a logo that brings an inline style.
    layout: "BaseLayout",
  });
});
