// What lazy files share with the document; build.mjs writes it.
declare module 'shared:';
