// What lazy files share with the main document; written by build.mjs.
declare module 'shared:';
