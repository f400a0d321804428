SwaggerUIBundle({ url: "openapi.json", dom_id: "#swagger", validatorUrl: null, deepLinking: true });
